#include "hyperion/records/open_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/decompress.h"

namespace hyperion::records {
namespace {

class FileBytes final : public ByteStream {
 public:
  explicit FileBytes(const base::Path& path) : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw base::FileError(base::format("cannot open {}", path.string()), errno);
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~FileBytes() override { ::close(descriptor_); }
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  size_t read(std::span<char> out) override {
    for (;;) {
      const ssize_t got = ::read(descriptor_, out.data(), std::min<size_t>(out.size(), 1 << 30));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) throw base::FileError(base::format("cannot read {}", path_.string()), errno);
    }
  }

  // The first bytes, without taking them.
  std::string beginning() {
    std::string bytes(4, '\0');
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }

 private:
  base::Path path_;
  int descriptor_;
};

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }
bool is_zstd(std::string_view bytes) {
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return true;
  return bytes.size() == 4 && (bytes[0] & 0xf0) == 0x50 && bytes.substr(1) == "\x2a\x4d\x18";  // a frame to be skipped
}

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const base::Path& path) {
  auto file = std::make_unique<FileBytes>(path);
  const std::string beginning = file->beginning();
  if (is_gzip(beginning)) return unpack_gzip(std::move(file), path.string());
  if (is_zstd(beginning)) return unpack_zstd(std::move(file), path.string());
  return file;
}

}  // namespace hyperion::records

#include "hyperion/trace/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>

#include "hyperion/base/error.h"

namespace hyperion::trace {
namespace {

constexpr int kGzip = 15 + 16;  // the largest window, and gzip's own header and trailer

class GzipFile final : public base::WritableFile {
 public:
  explicit GzipFile(std::unique_ptr<base::WritableFile> under) : under_(std::move(under)), out_(size_t{1} << 16, '\0') {
    const int begun = deflateInit2(&state_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY);
    HYPERION_CHECK(begun == Z_OK, "zlib starts");
  }
  ~GzipFile() override { deflateEnd(&state_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const size_t piece = std::min<size_t>(bytes.size(), 1 << 30);
      pack(bytes.substr(0, piece), Z_NO_FLUSH);
      bytes.remove_prefix(piece);
    }
  }
  void sync() override {
    pack({}, Z_FINISH);
    under_->sync();
  }

 private:
  void pack(std::string_view bytes, int flush) {
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib's own header asks for it
    state_.avail_in = static_cast<uInt>(bytes.size());
    do {
      state_.next_out = reinterpret_cast<Bytef*>(out_.data());
      state_.avail_out = static_cast<uInt>(out_.size());
      deflate(&state_, flush);
      under_->append(std::string_view(out_).substr(0, out_.size() - state_.avail_out));
    } while (state_.avail_out == 0);
  }

  std::unique_ptr<base::WritableFile> under_;
  std::string out_;
  z_stream state_ = {};
};

}  // namespace

std::unique_ptr<base::WritableFile> gzip_file(std::unique_ptr<base::WritableFile> under) {
  return std::make_unique<GzipFile>(std::move(under));
}

}  // namespace hyperion::trace

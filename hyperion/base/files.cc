#include "hyperion/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {

[[noreturn]] void fail(const char* doing, const Path& path, int code) {
  std::string hint;
  if (code == ENOSPC || code == EDQUOT) hint = "free some space, or choose another folder with HYPERION_RUNS";
  if (code == EACCES || code == EROFS || code == EPERM)
    hint = "check the permissions, or choose another folder with HYPERION_RUNS";
  if (code == ENOTDIR) hint = "a part of that path is a file where a folder should be";
  if (code == EISDIR) hint = "that is a folder, and a file is needed";
  if (code == ENOENT) hint = "check the spelling of the path; nothing is there, or nothing can be made there";
  throw FileError(format("cannot {} {}", doing, path.string()), code, hint);
}

void sync_folder(const Path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open", folder, errno);
  const int result = ::fsync(descriptor), code = errno;
  ::close(descriptor);
  if (result != 0 && code != EINVAL) fail("sync", folder, code);
}

class RealFile final : public WritableFile {
 public:
  RealFile(const Path& path, int flags)
      : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644)) {
    if (descriptor_ < 0) fail("create", path, errno);
  }
  ~RealFile() override { ::close(descriptor_); }

  void append(std::string_view bytes) override {
    const Fault fault = fault_point("files.write");
    if (fault == Fault::disk_full) fail("write", path_, ENOSPC);
    if (fault == Fault::tear) {
      bytes = bytes.substr(0, bytes.size() / 2);
      if (::write(descriptor_, bytes.data(), bytes.size()) >= 0) ::kill(::getpid(), SIGKILL);
    }
    while (!bytes.empty()) {
      // Linux writes at most 2 GiB a call.
      const ssize_t written = ::write(descriptor_, bytes.data(), std::min<size_t>(bytes.size(), 1 << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      bytes.remove_prefix(written);
    }
  }

  void sync() override {
    if (::fsync(descriptor_) != 0 && errno != EINVAL) fail("sync", path_, errno);
  }

 private:
  Path path_;
  int descriptor_;
};

class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const Path& path) override { return std::make_unique<RealFile>(path, O_TRUNC); }
  std::unique_ptr<WritableFile> open_append(const Path& path) override {
    return std::make_unique<RealFile>(path, O_APPEND);
  }

  std::string read(const Path& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("open", path, errno);
    std::string content;
    char block[1 << 16];
    ssize_t got;
    while ((got = ::read(descriptor, block, sizeof block)) != 0) {
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        const int code = errno;
        ::close(descriptor);
        fail("read", path, code);
      }
      content.append(block, got);
    }
    ::close(descriptor);
    return content;
  }

  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to, errno);
    sync_folder(to.parent_path());
  }

  void resize(const Path& path, uint64_t bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) fail("resize", path, errno);
  }

  void create_folders(const Path& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail("create folder", path, error.value());
  }

  void remove_all(const Path& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) fail("remove", path, error.value());
  }

  bool exists(const Path& path) override {
    std::error_code error;
    return std::filesystem::exists(path, error);
  }

  uint64_t size(const Path& path) override {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    if (error) fail("open", path, error.value());
    return bytes;
  }

  std::vector<Path> list(const Path& folder) override {
    std::error_code error;
    std::vector<Path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) paths.push_back(entry.path());
    if (error && error.value() != ENOENT) fail("list", folder, error.value());
    std::sort(paths.begin(), paths.end());
    return paths;
  }
};

}  // namespace

FileSystem& real_files() {
  static RealFileSystem files;
  return files;
}

Path partial_path(const Path& path) {
  static std::atomic<uint64_t> count{0};  // two threads may write one path at once
  return path.string() + format(".partial-{}-{}", ::getpid(), ++count);
}

void write_atomically(FileSystem& files, const Path& path, std::string_view content) {
  const Path beside = partial_path(path);
  try {
    auto file = files.create(beside);
    file->append(content);
    file->sync();
    file.reset();
    files.rename(beside, path);
  } catch (...) {
    try {
      files.remove_all(beside);
    } catch (const FileError&) {
      // The first failure is the one to tell.
    }
    throw;
  }
}

FileLock::FileLock(const Path& path, const std::string& busy)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail("open", path, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    ::close(descriptor_);
    if (code != EWOULDBLOCK) fail("lock", path, code);
    throw ConfigError(busy, "wait for it to end, or stop it first");
  }
}
FileLock::~FileLock() { ::close(descriptor_); }

MappedFile::MappedFile(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("open", path, errno);
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    const int code = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
    ::close(descriptor);
    fail("map", path, code);
  }
  size_ = facts.st_size;
  void* address = size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int code = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) fail("map", path, code);
  data_ = static_cast<const char*>(address);
}
MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace hyperion::base

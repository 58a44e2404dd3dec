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
#include <cstdio>
#include <cstring>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {

[[noreturn]] void fail(const char* doing, const Path& path, int code) {
  std::string hint;
  if (code == ENOSPC || code == EDQUOT)
    hint = "free some space, or choose another folder (HYPERION_RUNS: that of the runs)";
  if (code == EACCES || code == EROFS || code == EPERM)
    hint = "check the permissions, or choose another folder (HYPERION_RUNS: that of the runs)";
  if (code == ENOTDIR) hint = "a part of that path is a file where a folder should be";
  if (code == EISDIR) hint = "that is a folder, and a file is needed";
  if (lacks_descriptors(code)) hint = descriptor_hint();
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

namespace {

// What is mapped, for a handler that may neither lock nor allocate.
struct Mapping {
  std::atomic<const char*> data{nullptr};
  std::atomic<size_t> size{0};
  char path[240];
};
Mapping mappings[64];

void note_mapping(const char* data, size_t size, const Path& path) {
  for (Mapping& mapping : mappings) {
    size_t free = 0;
    if (!mapping.size.compare_exchange_strong(free, size)) continue;
    std::snprintf(mapping.path, sizeof mapping.path, "%s", path.c_str());
    mapping.data = data;
    return;
  }
}

void forget_mapping(const char* data) {
  for (Mapping& mapping : mappings) {
    const char* found = data;
    if (mapping.data.compare_exchange_strong(found, nullptr)) mapping.size = 0;
  }
}

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void mapped_file_is_gone(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const char*>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const char* data = mapping.data;
    if (data == nullptr || address < data || address >= data + mapping.size) continue;
    say("error: ");
    say(mapping.path);
    say(" was cut short or replaced while it was read\nhint: put the file back as it was, then go on from the last "
        "checkpoint\n");
    ::_exit(1);
  }
  ::signal(SIGBUS, SIG_DFL);
  ::raise(SIGBUS);
}

}  // namespace

void watch_mapped_files() {
  struct sigaction action {};
  action.sa_sigaction = mapped_file_is_gone;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void read_in_pieces(const Path& path, const std::function<void(std::string_view)>& use) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("open", path, errno);
  const std::unique_ptr<const int, void (*)(const int*)> closed(&descriptor, [](const int* d) { ::close(*d); });
  std::string piece(size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) return;
    use(std::string_view(piece).substr(0, got));
  }
}

MappedFile::MappedFile(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // of a pipe too: it is refused below
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
  if (data_ != nullptr) note_mapping(data_, size_, path);
}
MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_mapping(data_);
  ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace hyperion::base

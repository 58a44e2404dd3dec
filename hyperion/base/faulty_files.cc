#include "hyperion/base/faulty_files.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {

class FaultyFile final : public WritableFile {
 public:
  FaultyFile(FaultyFileSystem& files, std::unique_ptr<WritableFile> real, Path path)
      : files_(files), real_(std::move(real)), path_(std::move(path)) {}

  void append(std::string_view bytes) override {
    files_.operate(path_);
    const size_t writable = files_.writable_bytes(path_, bytes.size());
    real_->append(bytes.substr(0, writable));
    if (files_.dead_) throw FileError(format("cannot write {}", path_.string()), EIO);
    if (writable < bytes.size()) throw FileError(format("cannot write {}", path_.string()), ENOSPC);
  }
  void sync() override {
    files_.operate(path_);
    real_->sync();
  }

 private:
  FaultyFileSystem& files_;
  std::unique_ptr<WritableFile> real_;
  Path path_;
};

void FaultyFileSystem::operate(const Path& path) {
  ++operations_;
  if (kill_in_ > 0 && --kill_in_ == 0) ::kill(::getpid(), SIGKILL);
  if (dead_ || (fail_in_ > 0 && --fail_in_ == 0)) throw FileError(format("cannot write {}", path.string()), EIO);
}

size_t FaultyFileSystem::writable_bytes(const Path&, size_t wanted) {
  if (tear_in_ > 0 && --tear_in_ == 0) {
    dead_ = true;
    return wanted / 2;
  }
  if (capacity_ < 0) return wanted;
  const auto granted = std::min<int64_t>(capacity_, static_cast<int64_t>(wanted));
  capacity_ -= granted;
  return granted;
}

std::unique_ptr<WritableFile> FaultyFileSystem::create(const Path& path) {
  operate(path);
  return std::make_unique<FaultyFile>(*this, real_.create(path), path);
}
std::unique_ptr<WritableFile> FaultyFileSystem::open_append(const Path& path) {
  operate(path);
  return std::make_unique<FaultyFile>(*this, real_.open_append(path), path);
}
void FaultyFileSystem::rename(const Path& from, const Path& to) {
  operate(to);
  real_.rename(from, to);
}
void FaultyFileSystem::resize(const Path& path, uint64_t bytes) {
  operate(path);
  real_.resize(path, bytes);
}
void FaultyFileSystem::create_folders(const Path& path) {
  operate(path);
  real_.create_folders(path);
}
void FaultyFileSystem::remove_all(const Path& path) {
  if (dead_) throw FileError(format("cannot remove {}", path.string()), EIO);
  real_.remove_all(path);
}

}  // namespace hyperion::base

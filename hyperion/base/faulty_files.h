// A file system that fails on cue, over a real one: for tests of what must survive. Counts every append, sync and
// rename.
#pragma once
#include "hyperion/base/files.h"

namespace hyperion::base {

class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& real = real_files()) : real_(real) {}

  // The n-th operation from now (1 is the next) fails with EIO; 0: never.
  void fail_operation(int64_t n) { fail_in_ = n; }
  // The n-th append from now writes only its first half, then every later operation fails, as after a crash; 0: never.
  void tear_append(int64_t n) { tear_in_ = n; }
  // The n-th operation from now kills this process with SIGKILL; 0: never.
  void kill_at_operation(int64_t n) { kill_in_ = n; }
  // Appends beyond this many bytes in all fail with ENOSPC; -1: endless.
  void set_capacity(int64_t bytes) { capacity_ = bytes; }
  int64_t operations() const { return operations_; }

  std::unique_ptr<WritableFile> create(const Path& path) override;
  std::unique_ptr<WritableFile> open_append(const Path& path) override;
  std::string read(const Path& path) override { return real_.read(path); }
  void rename(const Path& from, const Path& to) override;
  void resize(const Path& path, uint64_t bytes) override;
  void create_folders(const Path& path) override;
  void remove_all(const Path& path) override;
  bool exists(const Path& path) override { return real_.exists(path); }
  uint64_t size(const Path& path) override { return real_.size(path); }
  std::vector<Path> list(const Path& folder) override { return real_.list(folder); }

 private:
  friend class FaultyFile;
  void operate(const Path& path);
  size_t writable_bytes(const Path& path, size_t wanted);

  FileSystem& real_;
  int64_t fail_in_ = 0, tear_in_ = 0, kill_in_ = 0, capacity_ = -1, operations_ = 0;
  bool dead_ = false;
};

}  // namespace hyperion::base

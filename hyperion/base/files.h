// The file system behind a seam, so that tests can make it fail. Nothing half-written is ever read: whole files go
// through write_atomically, folders are written beside their name and renamed. Every failure is a FileError that names
// the path.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::base {

using Path = std::filesystem::path;

class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::string_view bytes) = 0;
  virtual void sync() = 0;  // bytes are on the disk when it returns
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<WritableFile> create(const Path& path) = 0;       // empties an existing file
  virtual std::unique_ptr<WritableFile> open_append(const Path& path) = 0;  // creates a missing file
  virtual std::string read(const Path& path) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;  // replaces `to`, then syncs its folder
  virtual void resize(const Path& path, uint64_t bytes) = 0;  // cuts a file, or fills it up with zeros
  virtual void create_folders(const Path& path) = 0;
  virtual void remove_all(const Path& path) = 0;  // a missing path is fine
  virtual bool exists(const Path& path) = 0;
  virtual uint64_t size(const Path& path) = 0;
  virtual std::vector<Path> list(const Path& folder) = 0;  // sorted; empty where there is no folder
};

FileSystem& real_files();

// A name beside the path that nobody else uses, to write under before the rename.
Path partial_path(const Path& path);

// Writes beside the path, syncs and renames: a reader sees the old content or the new, never a part.
void write_atomically(FileSystem& files, const Path& path, std::string_view content);

// Only one process holds the lock of a path at a time; released when destroyed or when the process dies.
class FileLock {
 public:
  // Throws ConfigError naming `busy` when another process holds it.
  FileLock(const Path& path, const std::string& busy);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

// The bytes of a file one piece after the other, each gone when the next comes.
void read_in_pieces(const Path& path, const std::function<void(std::string_view)>& use);

// From here on, a file that is cut short while it is mapped ends the program with an error that names it.
void watch_mapped_files();

// A read-only view of a whole file, mapped; the bytes live as long as the object.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hyperion::base

// A text file that another process writes on, read line by line as it grows.
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::dash {

class GrowingFile {
 public:
  explicit GrowingFile(base::Path path) : path_(std::move(path)) {}

  struct Piece {
    std::string lines;  // whole ones; what a writer has not ended yet comes with a later piece
    bool anew = false;  // the file was cut or replaced: what was read before is no more
    bool more = false;  // there is more to read at once
  };
  // At most so many bytes from where the last piece ended; a line that is longer is passed over. A file that is
  // missing, or no regular one, gives nothing.
  Piece read_on(size_t most);

  uint64_t place() const { return place_; }
  uint64_t size() const { return size_; }  // when it was last looked at
  bool was_looked_at() const { return looked_; }

 private:
  base::Path path_;
  uint64_t place_ = 0, size_ = 0, device_ = 0, inode_ = 0;
  bool in_long_line_ = false, looked_ = false;
};

// The last bytes of a regular file, from the first line that begins in them; empty where there is no such file.
std::string last_lines(const base::Path& path, size_t bytes);
// Likewise its first line, without the line end, where it is at most so long.
std::string first_line(const base::Path& path, size_t most);

}  // namespace hyperion::dash

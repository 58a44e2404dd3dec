#include "hyperion/dash/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace hyperion::dash {
namespace {

// Opened so that a pipe in place of a file holds nobody up.
class OpenFile {
 public:
  explicit OpenFile(const base::Path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
    if (descriptor_ >= 0 && (::fstat(descriptor_, &facts_) != 0 || !S_ISREG(facts_.st_mode))) close();
  }
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  uint64_t size() const { return static_cast<uint64_t>(facts_.st_size); }
  const struct stat& facts() const { return facts_; }

  std::string read(uint64_t from, size_t bytes) const {
    std::string text(bytes, '\0');
    const ssize_t got = ::pread(descriptor_, text.data(), bytes, static_cast<off_t>(from));
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }

 private:
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  int descriptor_;
  struct stat facts_ {};
};

}  // namespace

GrowingFile::Piece GrowingFile::read_on(size_t most) {
  Piece piece;
  looked_ = true;
  const OpenFile file(path_);
  if (!file.is_open()) return piece;
  const bool same = file.facts().st_ino == inode_ && file.facts().st_dev == device_ && file.size() >= place_;
  if (!same) {
    piece.anew = place_ > 0;
    place_ = 0, in_long_line_ = false;
    inode_ = file.facts().st_ino, device_ = file.facts().st_dev;
  }
  size_ = file.size();
  if (size_ == place_) return piece;
  piece.more = size_ - place_ > most;
  piece.lines = file.read(place_, static_cast<size_t>(std::min<uint64_t>(size_ - place_, most)));
  const size_t end = piece.lines.rfind('\n');
  if (end == piece.lines.npos) {
    if (piece.lines.size() == most) place_ += piece.lines.size(), in_long_line_ = true;
    piece.lines.clear();
  } else {
    piece.lines.resize(end + 1);
    place_ += piece.lines.size();
    if (in_long_line_) piece.lines.erase(0, piece.lines.find('\n') + 1);
    in_long_line_ = false;
  }
  return piece;
}

std::string last_lines(const base::Path& path, size_t bytes) {
  const OpenFile file(path);
  if (!file.is_open()) return {};
  const uint64_t from = file.size() > bytes ? file.size() - bytes : 0;
  std::string text = file.read(from, static_cast<size_t>(file.size() - from));
  if (from > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

std::string first_line(const base::Path& path, size_t most) {
  const OpenFile file(path);
  if (!file.is_open()) return {};
  std::string text = file.read(0, static_cast<size_t>(std::min<uint64_t>(most, file.size())));
  const size_t end = text.find('\n');
  return end == text.npos ? std::string() : text.substr(0, end);
}

}  // namespace hyperion::dash

#include "hyperion/host/disk.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "hyperion/base/format.h"
#include "hyperion/base/random.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

namespace fs = std::filesystem;

base::Path nearest_existing(const base::Path& folder) {
  std::error_code ignored;
  base::Path path = fs::absolute(folder, ignored).lexically_normal();
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  const base::Path real = fs::canonical(path, ignored);
  return real.empty() ? path : real;
}

// mountinfo writes blanks and backslashes as \040 and the like.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size()) {
      plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

bool lies_under(const base::Path& path, const base::Path& mount) {
  const auto [at, ignored] = std::mismatch(mount.begin(), mount.end(), path.begin(), path.end());
  return at == mount.end();
}

std::string random_block(size_t bytes) {
  const base::StreamKey key = base::stream_key(0, "disk.trial");
  std::string block(bytes, '\0');
  for (size_t at = 0; at + 16 <= bytes; at += 16) {
    const base::RandomWords words = base::philox(key, at / 16, 0, 0);
    std::memcpy(block.data() + at, words.word, 16);
  }
  return block;
}

}  // namespace

std::string filesystem_of(const base::Path& path, const std::string& mountinfo) {
  std::string type = "unknown";
  size_t longest = 0;
  for (const std::string& line :
       split(mountinfo, '\n')) {  // "36 35 98:0 /root /mount/point options - type source options"
    const size_t dash = line.find(" - ");
    const auto before = split(line.substr(0, dash), ' ');
    if (dash == std::string::npos || before.size() < 5) continue;
    const std::string mount = unescaped(before[4]);
    const auto after = split(line.substr(dash + 3), ' ');
    // Of two mounts on one place the later hides the earlier.
    if (after.empty() || mount.size() < longest || !lies_under(path, mount)) continue;
    longest = mount.size();
    type = after[0];
  }
  return type;
}

Disk disk_of(const base::Path& folder, const base::Path& root) {
  Disk disk;
  disk.folder = nearest_existing(folder);
  struct statvfs facts {};
  if (::statvfs(disk.folder.c_str(), &facts) == 0) {
    disk.total = uint64_t{facts.f_blocks} * facts.f_frsize;
    disk.free = uint64_t{facts.f_bavail} * facts.f_frsize;
  }
  disk.filesystem = filesystem_of(disk.folder, system_text(root, "/proc/self/mountinfo").value_or(""));
  std::error_code ignored;
  if (!fs::is_directory(disk.folder, ignored)) {
    disk.not_writable_because = base::format("{} is not a folder", disk.folder.string());
  } else if (::access(disk.folder.c_str(), W_OK | X_OK) != 0) {
    disk.not_writable_because = std::system_category().message(errno);
  }
  disk.writable = disk.not_writable_because.empty();
  return disk;
}

uint64_t trial_bytes(uint64_t free) {
  constexpr uint64_t kMebibyte = 1 << 20;
  const uint64_t bytes = std::min(64 * kMebibyte, free / 4) / kMebibyte * kMebibyte;
  return bytes;
}

WriteSpeed measure_write(base::FileSystem& files, const base::Clock& clock, const base::Path& folder, uint64_t bytes) {
  if (bytes == 0) return {};
  const std::string block = random_block(std::min<uint64_t>(bytes, 4 << 20));
  const base::Path path = folder / base::format(".hyperion-disk-trial-{}", ::getpid());
  const auto file = files.create(path);
  files.remove_all(path);
  const double start = clock.seconds();
  for (uint64_t written = 0; written < bytes; written += block.size())
    file->append(std::string_view(block).substr(0, std::min<uint64_t>(block.size(), bytes - written)));
  file->sync();
  const double seconds = clock.seconds() - start;
  return {bytes, seconds > 0 ? static_cast<double>(bytes) / seconds : 0};
}

}  // namespace hyperion::host

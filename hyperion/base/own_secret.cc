#include "hyperion/base/own_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"

namespace hyperion::base {
namespace {

// Whoever comes first makes it; a link, unlike a rename, never replaces what another made a moment ago.
void make_secret(const Path& path, const std::string& secret, const std::string& hint) {
  real_files().create_folders(path.parent_path());
  const Path partial = partial_path(path);
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = file >= 0 &&
                       ::write(file, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size()) &&
                       ::fsync(file) == 0;
  const int code = errno;
  if (file >= 0) ::close(file);
  std::error_code ignored;
  if (written) std::filesystem::create_hard_link(partial, path, ignored);
  std::filesystem::remove(partial, ignored);
  if (!written) throw FileError(format("{} cannot be written: {}", path.string(), std::strerror(code)), code, hint);
}

}  // namespace

Path own_secret_file(const std::string& name) {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && *config != '\0') return Path(config) / "hyperion" / name;
  if (home != nullptr && *home != '\0') return Path(home) / ".config" / "hyperion" / name;
  return {};
}

std::string own_secret(const Path& path, const std::function<std::string()>& make, const std::string& hint) {
  constexpr uint64_t kLongest = 4096;
  if (!real_files().exists(path)) make_secret(path, make(), hint);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0)
    throw ConfigError(format("{} can be read by others", path.string()),
                      format("remove it: another is made (or chmod 600 {})", path.string()));
  return read_at_most(real_files(), path, kLongest);
}

}  // namespace hyperion::base

#include "hyperion/comm/job_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/hmac.h"

namespace hyperion::comm {
namespace {

using base::format;

constexpr size_t kShortest = 16;

base::Path users_file() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && *config != '\0') return base::Path(config) / "hyperion" / "job_secret";
  if (home != nullptr && *home != '\0') return base::Path(home) / ".config" / "hyperion" / "job_secret";
  throw base::ConfigError("the job has no secret, and this user no home folder to keep one in",
                          format("give every rank the same {}", kSecretVariable));
}

// Whoever comes first makes it; a link, unlike a rename, never replaces what another made a moment ago.
void make_if_missing(const base::Path& path) {
  if (base::real_files().exists(path)) return;
  base::real_files().create_folders(path.parent_path());
  const base::Path partial = base::partial_path(path);
  const std::string secret = new_job_secret();
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = file >= 0 &&
                       ::write(file, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size()) &&
                       ::fsync(file) == 0;
  const int code = errno;
  if (file >= 0) ::close(file);
  std::error_code ignored;
  if (written) std::filesystem::create_hard_link(partial, path, ignored);
  std::filesystem::remove(partial, ignored);
  if (!written)
    throw base::FileError(format("{} cannot be written: {}", path.string(), std::strerror(code)), code,
                          format("give every rank the same {}", kSecretVariable));
}

std::string users_secret() {
  const base::Path path = users_file();
  make_if_missing(path);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0)
    throw base::ConfigError(format("{} can be read by others", path.string()),
                            format("chmod 600 {}, or remove it: another is made", path.string()));
  return base::real_files().read(path);
}

}  // namespace

std::string new_job_secret() { return hex(random_bytes(32)); }

std::string job_key(const std::string& secret, const std::string& job) {
  const Digest mixed = hmac_sha256(secret, "job " + job);
  return {reinterpret_cast<const char*>(mixed.data()), mixed.size()};
}

std::string find_job_secret() {
  const char* told = std::getenv(kSecretVariable);
  const std::string secret = told != nullptr && *told != '\0' ? told : users_secret();
  if (secret.size() < kShortest)
    throw base::ConfigError(format("the job's secret has {} characters; {} are needed", secret.size(), kShortest),
                            format("set {} to the output of: head -c 32 /dev/urandom | base64", kSecretVariable));
  return secret;
}

}  // namespace hyperion::comm

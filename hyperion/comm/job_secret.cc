#include "hyperion/comm/job_secret.h"

#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/own_secret.h"
#include "hyperion/comm/hmac.h"

namespace hyperion::comm {
namespace {

using base::format;

constexpr size_t kShortest = 16;

std::string users_secret() {
  const auto path = base::own_secret_file("job_secret");
  const auto hint = format("give every rank the same {}", kSecretVariable);
  if (path.empty()) throw base::ConfigError("the job has no secret, and this user no home folder to keep one in", hint);
  return base::own_secret(path, new_job_secret, hint);
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

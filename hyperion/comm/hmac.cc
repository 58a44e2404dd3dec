#include "hyperion/comm/hmac.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

[[noreturn]] void refuse_for_libcrypto(const char* what) {
  char why[256];
  ::ERR_error_string_n(::ERR_get_error(), why, sizeof why);
  throw base::Error(base::format("no {} from libcrypto: {}", what, why),
                    "check this machine's OpenSSL: its library, and its configuration (OPENSSL_CONF)");
}

}  // namespace

Digest hmac_sha256(std::string_view key, std::string_view message) {
  Digest digest;
  const char* key_bytes = key.empty() ? "" : key.data();  // null would be no key at all
  const void* made =
      ::HMAC(::EVP_sha256(), key_bytes, static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(), nullptr);
  if (made == nullptr) refuse_for_libcrypto("HMAC-SHA256");
  return digest;
}

bool same_digest(const Digest& a, const Digest& b) { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1)
    refuse_for_libcrypto("random numbers for a secret");
  return bytes;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += base::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace hyperion::comm

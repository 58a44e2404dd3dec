#include "hyperion/hub/blob_hash.h"

#include <openssl/evp.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/hub/repo.h"

namespace hyperion::hub {
namespace {

constexpr size_t kSha256Digits = 64;

void expect_done(int result) {
  if (result != 1)
    throw base::Error("libcrypto refuses to hash",
                      "check this machine's OpenSSL: its library, and its configuration (OPENSSL_CONF)");
}

}  // namespace

struct BlobHash::State {
  EVP_MD_CTX* context = ::EVP_MD_CTX_new();
  ~State() { ::EVP_MD_CTX_free(context); }
};

bool is_blob_hash(std::string_view text) {
  return is_commit(text) || (text.size() == kSha256Digits && is_hexadecimal(text));
}

BlobHash::BlobHash(std::string_view expected, uint64_t size) : state_(std::make_unique<State>()) {
  const bool large = expected.size() == kSha256Digits;
  expect_done(::EVP_DigestInit_ex(state_->context, large ? ::EVP_sha256() : ::EVP_sha1(), nullptr));
  if (large) return;
  update(base::format("blob {}", size));
  update(std::string_view("\0", 1));
}

BlobHash::~BlobHash() = default;

void BlobHash::update(std::string_view bytes) {
  expect_done(::EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string BlobHash::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  expect_done(::EVP_DigestFinal_ex(state_->context, digest, &length));
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += base::format("{:02x}", digest[i]);
  return text;
}

}  // namespace hyperion::hub

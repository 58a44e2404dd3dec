#include "hyperion/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {
std::string hex_text(XXH128_hash_t hash) { return format("{:016x}{:016x}", hash.high64, hash.low64); }
}  // namespace

std::string hash_hex(std::string_view bytes) { return hex_text(XXH3_128bits(bytes.data(), bytes.size())); }
uint64_t hash_64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

struct Hasher::State {
  XXH3_state_t xxh;
};
Hasher::Hasher() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
void Hasher::update(std::string_view bytes) { XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()); }
std::string Hasher::hex() const { return hex_text(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace hyperion::base

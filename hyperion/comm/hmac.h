// HMAC-SHA256 (RFC 2104) and random bytes, from libcrypto: how two ends of a connection prove that they know one
// secret.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hyperion::comm {

using Digest = std::array<uint8_t, 32>;

// Throws Error where libcrypto may not (a policy of this machine).
Digest hmac_sha256(std::string_view key, std::string_view message);

// Takes the same time wherever the two differ.
bool same_digest(const Digest& a, const Digest& b);

// Fit for secrets, also after a fork. Throws Error where there are none.
std::string random_bytes(size_t count);
std::string hex(std::string_view bytes);

}  // namespace hyperion::comm

// SHA-256 (FIPS 180-4) and HMAC over it (RFC 2104): how two ends of a connection prove that they know one secret.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hyperion::comm {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Takes the same time wherever the two differ.
bool same_digest(const Digest& a, const Digest& b);

// From the system's generator. Throws Error where there is none.
std::string random_bytes(size_t count);
std::string hex(std::string_view bytes);

}  // namespace hyperion::comm

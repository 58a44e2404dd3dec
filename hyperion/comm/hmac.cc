#include "hyperion/comm/hmac.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

constexpr size_t kBlock = 64;

constexpr bool is_prime(uint32_t n) {
  for (uint32_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n > 1;
}

// floor(root * 2^32) modulo 2^32, the root of `prime` of the given degree: the first 32 bits of its fraction. By search
// in whole numbers, so that no rounding decides a bit.
constexpr uint32_t root_fraction(uint32_t prime, int degree) {
  uint64_t low = 0, high = uint64_t{1} << 38;  // the largest root is below 2^5
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    unsigned __int128 power = middle;
    for (int i = 1; i < degree; ++i) power *= middle;
    (power <= static_cast<unsigned __int128>(prime) << (32 * degree) ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

template <size_t N>
constexpr std::array<uint32_t, N> root_fractions(int degree) {
  std::array<uint32_t, N> words{};
  uint32_t prime = 1;
  for (auto& word : words) {
    while (!is_prime(++prime)) {
    }
    word = root_fraction(prime, degree);
  }
  return words;
}

constexpr auto kStart = root_fractions<8>(2);    // of the square roots of the first 8 primes
constexpr auto kRounds = root_fractions<64>(3);  // of the cube roots of the first 64
static_assert(kStart[0] == 0x6a09e667 && kRounds[63] == 0xc67178f2);

void mix_block(std::array<uint32_t, 8>& state, const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           uint32_t{block[4 * i + 3]};
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> add{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += add[i];
}

std::string_view text_of(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

}  // namespace

Digest sha256(std::string_view bytes) {
  auto state = kStart;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  for (; left >= kBlock; data += kBlock, left -= kBlock) mix_block(state, data);
  std::array<uint8_t, 2 * kBlock> last{};
  std::copy_n(data, left, last.begin());
  last[left] = 0x80;
  const size_t blocks = left + 9 <= kBlock ? 1 : 2;
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (size_t i = 0; i < 8; ++i) last[blocks * kBlock - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  for (size_t i = 0; i < blocks; ++i) mix_block(state, last.data() + i * kBlock);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest hmac_sha256(std::string_view key, std::string_view message) {
  const Digest short_key = key.size() > kBlock ? sha256(key) : Digest{};
  if (key.size() > kBlock) key = text_of(short_key);
  std::string inner(kBlock, '\x36'), outer(kBlock, '\x5c');
  for (size_t i = 0; i < key.size(); ++i) inner[i] ^= key[i], outer[i] ^= key[i];
  inner += message;
  outer += text_of(sha256(inner));
  return sha256(outer);
}

bool same_digest(const Digest& a, const Digest& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw base::Error(base::format("no random numbers for a secret: {}", std::strerror(errno)));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += base::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace hyperion::comm

// Random numbers without state: Philox4x32-10 (Salmon et al., 2011) keyed by (seed, stream name), counted by (step,
// micro-batch, element index). The same number comes out on any device, rank, layout or after any resume, so there is
// no generator state to save. Everything here is constexpr, so CUDA and HIP kernels call the same code.
#pragma once
#include <cstdint>
#include <string_view>

namespace hyperion::base {

struct StreamKey {
  uint32_t low, high;
};
// The key of a named stream: "init/transformer.wte.weight", "dropout/h.3.attn", "data.order".
StreamKey stream_key(uint64_t seed, std::string_view name);

struct RandomWords {
  uint32_t word[4];
};

// Seven rounds pass every test that ten do (the same paper), with less to spare.
template <int ROUNDS = 10>
constexpr RandomWords philox(StreamKey key, uint64_t block, uint32_t step, uint32_t micro_batch) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = step, c3 = micro_batch;
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < ROUNDS; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c0, product1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(product1), c3 = static_cast<uint32_t>(product0), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The 32 bits that belong to one element.
constexpr uint32_t random_bits(StreamKey key, uint64_t element, uint32_t step = 0, uint32_t micro_batch = 0) {
  return philox(key, element >> 2, step, micro_batch).word[element & 3];
}

// In (0, 1), never either end: 23 bits and a half, exact in float (with 24 the half would round the last up to 1).
constexpr float unit_float(uint32_t bits) { return (static_cast<float>(bits >> 9) + 0.5f) * (1.0f / 8388608.0f); }

// A whole number in [0, bound), from 64 random bits by multiply-shift; bound > 0.
uint64_t random_below(StreamKey key, uint64_t element, uint64_t bound, uint32_t step = 0);

// Standard normal numbers of elements [first, first + count), by Box and Muller in pairs of elements.
void fill_normal(StreamKey key, uint64_t first, uint64_t count, float deviation, float* out);

}  // namespace hyperion::base

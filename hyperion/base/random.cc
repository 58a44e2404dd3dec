#include "hyperion/base/random.h"

#include <cmath>
#include <numbers>

#include "hyperion/base/hash.h"

namespace hyperion::base {

StreamKey stream_key(uint64_t seed, std::string_view name) {
  const uint64_t hash = hash_64(name, seed);
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

uint64_t random_below(StreamKey key, uint64_t element, uint64_t bound, uint32_t step) {
  const RandomWords words = philox(key, element, step, 0);
  const uint64_t bits = uint64_t{words.word[1]} << 32 | words.word[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(bits) * bound >> 64);
}

void fill_normal(StreamKey key, uint64_t first, uint64_t count, float deviation, float* out) {
  for (uint64_t element = first & ~uint64_t{3}; element < first + count; element += 4) {
    const RandomWords words = philox(key, element >> 2, 0, 0);
    for (int pair = 0; pair < 4; pair += 2) {
      const float radius = deviation * std::sqrt(-2.0f * std::log(unit_float(words.word[pair])));
      const float angle = 2 * std::numbers::pi_v<float> * unit_float(words.word[pair + 1]);
      const float values[2] = {radius * std::cos(angle), radius * std::sin(angle)};
      for (int i = 0; i < 2; ++i) {
        const uint64_t at = element + pair + i;
        if (at >= first && at < first + count) out[at - first] = values[i];
      }
    }
  }
}

}  // namespace hyperion::base

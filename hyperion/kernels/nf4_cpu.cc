#include <ATen/Parallel.h>

#include <algorithm>

#include "hyperion/kernels/nf4_math.h"

namespace hyperion::kernels {
namespace {

// each(first, last, magnitude) for every block of 64.
template <class Each>
void for_blocks(int64_t count, const Nf4Scales& scales, const Each& each) {
  at::parallel_for(0, (count + kNf4Block - 1) / kNf4Block, 64, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      each(block * kNf4Block, std::min(count, (block + 1) * kNf4Block), nf4_magnitude(scales, block));
  });
}

}  // namespace

template <class T>
void nf4_pack_cpu(const T* in, const Nf4Scales& scales, uint8_t* codes, int64_t count) {
  for_blocks(count, scales, [&](int64_t first, int64_t last, float magnitude) {
    const float inverse = magnitude > 0 ? 1 / magnitude : 0;
    for (int64_t i = first; i < last; i += 2) {
      const uint8_t low = nf4_code(to_float(in[i]) * inverse);
      const uint8_t high = i + 1 < last ? nf4_code(to_float(in[i + 1]) * inverse) : uint8_t{0};
      codes[i / 2] = static_cast<uint8_t>(low | high << 4);
    }
  });
}

template <class T>
void nf4_unpack_cpu(const uint8_t* codes, const Nf4Scales& scales, T* out, int64_t count) {
  for_blocks(count, scales, [&](int64_t first, int64_t last, float magnitude) {
    float values[16];
    for (int code = 0; code < 16; ++code) values[code] = nf4_value(code) * magnitude;
    for (int64_t i = first; i < last; ++i) store(out[i], values[(codes[i / 2] >> (i % 2 * 4)) & 15]);
  });
}

template void nf4_pack_cpu(const float*, const Nf4Scales&, uint8_t*, int64_t);
template void nf4_pack_cpu(const Bfloat16*, const Nf4Scales&, uint8_t*, int64_t);
template void nf4_unpack_cpu(const uint8_t*, const Nf4Scales&, float*, int64_t);
template void nf4_unpack_cpu(const uint8_t*, const Nf4Scales&, Bfloat16*, int64_t);

}  // namespace hyperion::kernels

// Mixup and cutmix over a batch: rows 2 i and 2 i + 1 are mixed with each other, each by its own amount. Neighbours are
// strangers, since the order of the data is random; so no row needs to be fetched from elsewhere, and what happens to a
// row is a function of (seed, step, row) alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hyperion/data/images.h"
#include "hyperion/data/pixels.h"

namespace hyperion::data {

struct MixConfig {
  double mixup = 0, cutmix = 0;  // alpha of Beta(alpha, alpha); 0: none. With both, each row has one of them
};

// How one row is mixed with its partner, the row itself where there is none.
struct Mix {
  int64_t partner = 0;
  float own = 1;  // weight of the row's own label, and with mixup of its own pixels; the partner's is the rest
  Box box;        // cutmix: where the partner's pixels are seen; empty: mixup
};
// For row `row` of a batch of `rows`, of images of the given size.
Mix mix_of(const MixConfig& config, ImageSize size, uint64_t seed, int64_t step, int64_t row, int64_t rows);
std::vector<Mix> mixes_of(const MixConfig& config, ImageSize size, uint64_t seed, int64_t step, int64_t rows);

// Mixes the images of a batch in place, as `mixes` says; `pixels` holds mixes.size() images of that shape.
void mix_images(std::span<float> pixels, const ImageShape& shape, std::span<const Mix> mixes);

}  // namespace hyperion::data

// Mixup and cutmix: each row of a batch is mixed with another, by an amount of its own. Whom with, how much and where
// is a function of the seed and of the row's place in the whole batch and in the order of samples alone, whatever the
// processes and parts that share the batch.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hyperion/images/image_shape.h"
#include "hyperion/images/pixels.h"

namespace hyperion::data {

struct MixConfig {
  double mixup = 0, cutmix = 0;  // alpha of Beta(alpha, alpha); 0: none. With both, each row has one of them
  bool any() const { return mixup + cutmix > 0; }
};

// Every count-th row from `rank` on of the batch that begins at position `first` of the order and has `rows` in all.
struct BatchShare {
  int64_t first = 0, rows = 0, rank = 0, count = 1;
  std::vector<int64_t> positions() const;
};

// The position of the sample that a row is mixed with: the row rows / q further on, round the batch, where q is the
// smallest divisor of `rows` but 1. In an even batch that is the row half a batch away, which every share of an even
// number of rows, all shares alike, has itself. Neighbours or not, they are strangers, since the order is random. A
// batch of one row takes a sample from beside it in the order.
int64_t mix_partner(int64_t position, int64_t first, int64_t rows);

// How one row is mixed with its partner.
struct Mix {
  int64_t partner = 0;  // MixPlan's; mix_at leaves it
  float own = 1;        // weight of the row's own label, and with mixup of its own pixels; the partner's is the rest
  images::Box box;      // cutmix: where the partner's pixels are seen; empty: mixup
};
// Of the row at a position of the order, of images of the given size.
Mix mix_at(const MixConfig& config, images::ImageSize size, uint64_t seed, int64_t position);

// What a share reads. Partners that are not of it are read besides, once each: none where all shares have the same even
// number of rows, or a process is alone; at most as many as it has rows (one image a process, say), which then doubles
// what it reads and decodes, and the memory of a batch's pixels.
struct MixPlan {
  std::vector<int64_t> positions;  // of its own rows, then of those partners
  std::vector<Mix> mixes;          // of its own rows; partner: an index of positions
};
MixPlan mix_plan(const MixConfig& config, images::ImageSize size, uint64_t seed, const BatchShare& share);

// Mixes mixes.size() images in place. `others`: those that follow them where a partner is an index beyond them.
void mix_images(std::span<float> pixels, std::span<const float> others, const images::ImageShape& shape,
                std::span<const Mix> mixes);

}  // namespace hyperion::data

// Which weights travel together, and where each lies in the flat buffer they travel in. Plain arithmetic.
#pragma once
#include <string>
#include <vector>

#include "hyperion/nn/parameter.h"

namespace hyperion::parallel {

struct Place {
  size_t weight;
  int64_t begin;  // in the flat buffer, a multiple of kAlign
};

// Weights of one type, all trained or all frozen, in one flat buffer that is cut into equal pieces, one a rank.
struct Bucket {
  int unit = 0;
  bool trained = true;
  at::ScalarType type = at::kFloat;
  std::vector<Place> places;
  int64_t piece = 0, length = 0;  // elements; length = ranks * piece, the last of them padding
};

// So that vector loads and matrix products find every weight and every piece aligned.
inline constexpr int64_t kAlign = 16;

struct BucketOptions {
  int64_t ranks = 1;
  bool by_unit = false;      // a bucket never spans units, and frozen weights have buckets too
  int64_t bytes = 25 << 20;  // where not by unit: a bucket this full is closed
  std::string alone = {};    // the name of a weight that has a bucket of its own
};
// In the order the forward uses them. Weights whose gradients go on to be summed with neighbours lie apart, so that
// these have the same pieces of them. `units`: of each weight the block it belongs to, from 1 in the order they run; 0:
// none.
std::vector<Bucket> plan_buckets(const std::vector<nn::Parameter>& weights, const std::vector<int>& units,
                                 const BucketOptions& options);

// The part of one weight that lies in one rank's piece.
struct Slice {
  size_t weight;
  int64_t begin;  // in the flattened weight
  int64_t at;     // in the piece
  int64_t count;
};
std::vector<Slice> slices_of(const Bucket& bucket, const std::vector<nn::Parameter>& weights, int64_t rank);

}  // namespace hyperion::parallel

#include "hyperion/parallel/buckets.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>

namespace hyperion::parallel {
namespace {

nn::Parameter weight(const std::string& name, int64_t count, bool trained = true, at::ScalarType type = at::kFloat) {
  return {name, at::zeros({count}, type).requires_grad_(trained)};
}

// Every element of every weight is in exactly one rank's slice.
void expect_covered(const std::vector<Bucket>& buckets, const std::vector<nn::Parameter>& weights, int64_t ranks) {
  std::map<size_t, int64_t> ends;
  for (const auto& bucket : buckets) {
    EXPECT_EQ(bucket.length, ranks * bucket.piece);
    EXPECT_EQ(bucket.piece % kAlign, 0);
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (const auto& slice : slices_of(bucket, weights, rank)) {
        EXPECT_EQ(slice.begin, ends[slice.weight]) << "slices follow one another";
        EXPECT_LE(slice.at + slice.count, bucket.piece);
        EXPECT_EQ(slice.at % kAlign, 0);
        ends[slice.weight] += slice.count;
      }
  }
  for (const auto& [index, end] : ends) EXPECT_EQ(end, weights[index].tensor.numel()) << weights[index].name;
}

TEST(Buckets, close_when_full_and_leave_frozen_weights_out) {
  const std::vector<nn::Parameter> weights{weight("a", 100), weight("b", 7), weight("frozen", 50, false),
                                           weight("c", 300), weight("d", 1)};
  for (const int64_t ranks : {1, 2, 3, 7}) {
    const auto buckets = plan_buckets(weights, {1, 1, 1, 2, 0}, {ranks, false, 500});
    EXPECT_EQ(buckets.size(), 3u);
    expect_covered(buckets, weights, ranks);
    for (const auto& bucket : buckets)
      for (const auto& place : bucket.places) EXPECT_NE(weights[place.weight].name, "frozen");
  }
}

TEST(Buckets, by_unit_keep_units_types_and_frozen_weights_apart_in_the_order_they_run) {
  const std::vector<nn::Parameter> weights{weight("block2", 40), weight("rest", 5), weight("block1", 33),
                                           weight("frozen1", 20, false), weight("narrow1", 20, true, at::kBFloat16)};
  const auto buckets = plan_buckets(weights, {2, 0, 1, 1, 1}, {3, true, 1});
  ASSERT_EQ(buckets.size(), 5u);
  std::vector<int> units;
  for (const auto& bucket : buckets) {
    units.push_back(bucket.unit);
    EXPECT_EQ(bucket.places.size(), 1u);
    EXPECT_EQ(weights[bucket.places[0].weight].tensor.scalar_type(), bucket.type);
    EXPECT_EQ(weights[bucket.places[0].weight].tensor.requires_grad(), bucket.trained);
  }
  EXPECT_EQ(units, (std::vector<int>{0, 1, 1, 1, 2}));
  expect_covered(buckets, weights, 3);
}

}  // namespace
}  // namespace hyperion::parallel

#include "hyperion/strategy/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>

namespace hyperion::strategy {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Where in the flattened tensor each element of a part is, one by one.
std::vector<int64_t> places(const Placement& placement, int64_t count) {
  auto box = placement.offset.empty() ? placement.whole : placement.size;
  const auto across = static_cast<size_t>(placement.dim);
  if (placement.parts > 1) box[across] *= placement.parts;
  std::vector<int64_t> all;
  for (int64_t i = 0; i < product(box); ++i) {
    std::vector<int64_t> at(box.size());
    int64_t rest = i;
    for (size_t dim = box.size(); dim-- > 0; rest /= box[dim]) at[dim] = rest % box[dim];
    if (placement.parts > 1) {
      const int64_t size = placement.size[across], part = at[across] / size;
      at[across] = at[across] % size + part * (placement.whole[across] / placement.parts);
    }
    int64_t place = 0;
    for (size_t dim = 0; dim < box.size(); ++dim)
      place = place * placement.whole[dim] + at[dim] + (placement.offset.empty() ? 0 : placement.offset[dim]);
    all.push_back(place);
  }
  const int64_t begin = std::max<int64_t>(placement.begin, 0);
  return {all.begin() + begin, all.begin() + begin + count};
}

struct Part {
  Placement placement;
  int64_t count;
};

Part random_part(std::mt19937& random, const std::vector<int64_t>& whole) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  Part part{{whole}, product(whole)};
  if (below(3) > 0) {
    for (const int64_t size : whole) {
      part.placement.offset.push_back(below(size));
      part.placement.size.push_back(1 + below(size - part.placement.offset.back()));
    }
    part.count = product(part.placement.size);
    if (!whole.empty()) {  // one of its dims in equal parts
      const auto dim = static_cast<size_t>(below(static_cast<int64_t>(whole.size())));
      const int64_t parts = 1 + below(whole[dim]), length = whole[dim] / parts;
      if (whole[dim] % parts == 0 && parts > 1) {
        part.placement.offset[dim] = below(length);
        part.placement.size[dim] = 1 + below(length - part.placement.offset[dim]);
        part.placement.parts = parts, part.placement.dim = static_cast<int64_t>(dim);
        part.count = product(part.placement.size) * parts;
      }
    }
  }
  if (below(2) > 0) {
    part.placement.begin = below(part.count);
    part.count = 1 + below(part.count - part.placement.begin);
  }
  return part;
}

std::vector<int64_t> random_shape(std::mt19937& random) {
  std::vector<int64_t> shape(random() % 4);
  for (auto& size : shape) size = 1 + static_cast<int64_t>(random() % 5);
  return shape;
}

TEST(Placement, runs_are_the_elements_of_boxes_and_stretches_one_by_one) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto [placement, count] = random_part(random, random_shape(random));
    const auto expected = places(placement, count);
    const auto runs = runs_of(placement, count);
    std::vector<int64_t> found;
    for (size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i].held, static_cast<int64_t>(found.size()));
      if (i > 0) {
        EXPECT_GT(runs[i].whole, runs[i - 1].whole + runs[i - 1].count) << "neighbours are joined";
      }
      for (int64_t k = 0; k < runs[i].count; ++k) found.push_back(runs[i].whole + k);
    }
    ASSERT_EQ(found, expected) << round;
  }
}

TEST(Placement, overlaps_are_what_two_parts_have_in_common) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const auto shape = random_shape(random);
    const Part a = random_part(random, shape), b = random_part(random, shape);
    const auto from = places(a.placement, a.count), to = places(b.placement, b.count);
    std::vector<int64_t> common;
    std::set_intersection(from.begin(), from.end(), to.begin(), to.end(), std::back_inserter(common));
    std::vector<int64_t> found;
    for (const auto& overlap : overlaps_of(runs_of(a.placement, a.count), runs_of(b.placement, b.count)))
      for (int64_t k = 0; k < overlap.count; ++k) {
        found.push_back(from.at(static_cast<size_t>(overlap.from + k)));
        EXPECT_EQ(found.back(), to.at(static_cast<size_t>(overlap.to + k)));
      }
    ASSERT_EQ(found, common) << round;
  }
}

TEST(Placement, rows_of_whole_dims_are_one_run) {
  EXPECT_EQ(runs_of({{8, 3, 5}, -1, {2, 0, 0}, {4, 3, 5}}, 60).size(), 1u);
  EXPECT_EQ(runs_of({{8, 3, 5}, -1, {2, 1, 0}, {4, 2, 5}}, 40).size(), 4u);
  EXPECT_TRUE(runs_of({{0, 4}}, 0).empty());
}

}  // namespace
}  // namespace hyperion::strategy

#include "hyperion/nn/key_value_cache.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <set>

namespace hyperion::nn {
namespace {

TEST(KeyValueCache, holds_all_it_was_given_in_each_layer) {
  KeyValueCache cache;
  std::vector<at::Tensor> keys(2), values(2);
  for (const int64_t added : {3, 1, 1, 70, 1, 200, 1}) {
    for (size_t layer = 0; layer < 2; ++layer) {
      const auto k = at::randn({2, 3, added, 4}), v = at::randn({2, 3, added, 4});
      keys[layer] = keys[layer].defined() ? at::cat({keys[layer], k}, 2) : k;
      values[layer] = values[layer].defined() ? at::cat({values[layer], v}, 2) : v;
      const auto [all_keys, all_values] = cache.extend(layer, k, v);
      EXPECT_TRUE(all_keys.equal(keys[layer]));
      EXPECT_TRUE(all_values.equal(values[layer]));
    }
    EXPECT_EQ(cache.length(), keys[0].size(2));
  }
}

size_t places_in_memory(KeyValueCache cache, int64_t tokens) {
  std::set<const void*> addresses;
  std::vector<at::Tensor> alive;  // so that no address is used twice
  for (int64_t i = 0; i < tokens; ++i) {
    alive.push_back(cache.extend(0, at::randn({1, 1, 1, 2}), at::randn({1, 1, 1, 2})).first);
    addresses.insert(alive.back().const_data_ptr());
  }
  return addresses.size();
}

TEST(KeyValueCache, moves_only_when_its_room_has_doubled_and_never_where_told_how_much_comes) {
  EXPECT_EQ(places_in_memory(KeyValueCache(), 1000), 5u);  // 64, 128, 256, 512, 1024
  EXPECT_EQ(places_in_memory(KeyValueCache(1000), 1000), 1u);
}

}  // namespace
}  // namespace hyperion::nn

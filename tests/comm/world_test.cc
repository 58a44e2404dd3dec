#include "hyperion/comm/world.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace hyperion::comm {
namespace {

TEST(World, of_one_process_moves_everything_over_nccl_where_asked) {
  const char* device = std::getenv("HYPERION_TEST_DEVICE");
  if (device == nullptr || std::string(device) != "cuda") GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  const auto world = World::join({}, {.timeout = std::chrono::seconds(20), .wires_for_one = true});
  const auto group = world->group("test", Backend::gpu);
  ASSERT_EQ(group->kind(), "nccl");
  const auto gpu = at::TensorOptions(at::Device(at::kCUDA, 0)).dtype(at::kFloat);
  for (const int64_t count : {16, 4096}) {
    const auto numbers = at::arange(count, gpu), out = at::empty({count}, gpu);
    const auto right = [&](const at::Tensor& found) { return found.eq(numbers).all().item<bool>(); };
    const auto sum = numbers.clone();
    group->all_reduce(sum, "test").wait();
    EXPECT_TRUE(right(sum));
    group->reduce_scatter(out, numbers, "test").wait();
    EXPECT_TRUE(right(out));
    group->reduce_scatter(out, numbers, "test", /*add=*/true).wait();
    EXPECT_TRUE(right(out.div(2)));
    group->all_gather(out.zero_(), numbers, "test").wait();
    EXPECT_TRUE(right(out));
    group->all_to_all(out.zero_(), numbers, {count}, {count}, "test").wait();
    EXPECT_TRUE(right(out));
    group->broadcast(out, 0, "test").wait();
    EXPECT_TRUE(right(out));
  }
}

// The streams of group and caller meet only at the call and at wait(): a buffer that is dropped without waiting must
// live until the group's stream is done with it.
TEST(World, keeps_what_a_call_on_a_gpu_uses_until_it_is_done) {
  const char* device = std::getenv("HYPERION_TEST_DEVICE");
  if (device == nullptr || std::string(device) != "cuda") GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  const auto world = World::join({}, {.timeout = std::chrono::seconds(20), .wires_for_one = true});
  const auto group = world->group("test", Backend::gpu);
  const auto gpu = at::TensorOptions(at::Device(at::kCUDA, 0)).dtype(at::kFloat);
  constexpr int64_t kCount = 1 << 22;
  for (int turn = 0; turn < 50; ++turn) {
    auto in = at::full({kCount}, turn, gpu);
    const auto out = at::empty({kCount}, gpu);
    auto pending = group->all_gather(out, in, "test");
    in.reset();
    const auto other = at::full({kCount}, -1, gpu);  // would take the memory that is free
    pending.wait();
    EXPECT_TRUE(out.eq(turn).all().item<bool>()) << turn;
  }
}

}  // namespace
}  // namespace hyperion::comm

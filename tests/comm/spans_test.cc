#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <thread>

#include "hyperion/comm/group.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/profile/span.h"

namespace hyperion::comm {
namespace {

TEST(GroupSpans, tell_operation_caller_and_bytes_before_the_caller_goes_on) {
  profile::SpanRecorder recorder;
  auto transports = make_local_transports(2);
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Group group("test", std::move(transports[rank]));
      const auto values = at::ones({100});
      const profile::Span waits("waits");
      group.all_reduce(values, "gradients").wait();
      group.barrier("the end").wait();
    });
  for (auto& rank : ranks) rank.join();
  std::map<std::string, std::vector<profile::RecordedSpan>> found;
  for (const auto& span : recorder.take().spans) found[span.name].push_back(span);
  ASSERT_EQ(found["waits"].size(), 2u);
  ASSERT_EQ(found["all_reduce gradients"].size(), 2u);
  EXPECT_EQ(found["barrier the end"].size(), 2u);
  for (const auto& span : found["all_reduce gradients"]) {
    EXPECT_EQ(span.bytes, 400);
    EXPECT_EQ(span.group, "test");
    EXPECT_EQ(span.ranks, "0, 1");
    EXPECT_EQ(span.number, 0);
    for (const auto& caller : found["waits"]) {
      EXPECT_NE(span.thread, caller.thread) << "groups have threads of their own";
      EXPECT_LE(span.begin, caller.end);
    }
  }
}

}  // namespace
}  // namespace hyperion::comm

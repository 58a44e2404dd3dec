#include "hyperion/doctor/collectives.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/local_transport.h"

namespace hyperion::doctor {
namespace {

// Once a rank, each in a thread.
void on_ranks(int size, const std::function<void(comm::Group&)>& work) {
  auto transports = comm::make_local_transports(size, std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      comm::Group group("test", std::move(transports[static_cast<size_t>(rank)]));
      work(group);
    });
  for (auto& thread : threads) thread.join();
}

class KnownCollectives : public ::testing::TestWithParam<std::string> {
 protected:
  ~KnownCollectives() override { base::set_faults(""); }
};

TEST_P(KnownCollectives, are_right_at_every_size_and_number_of_ranks) {
  for (const int ranks : {1, 2, 3, 5})
    on_ranks(ranks, [&](comm::Group& group) {
      for (const int64_t bytes : {1, 8, 100, 4096, 50'000}) {
        KnownCollective collective(group, c10::kCPU, GetParam(), bytes);
        collective.fill(static_cast<uint64_t>(bytes));
        collective.call();
        EXPECT_TRUE(collective.wrong().empty()) << ranks << " ranks, " << bytes;
        collective.fill_zeros();
        for (int i = 0; i < 3; ++i) collective.call();
        EXPECT_TRUE(collective.wrong().empty()) << ranks << " ranks, zeros, " << bytes;
      }
    });
}

TEST_P(KnownCollectives, one_turned_bit_is_one_wrong_number) {
  if (GetParam() == "barrier") GTEST_SKIP() << "moves nothing";
  base::set_faults("comm.arrive=flip@2");
  std::atomic<int64_t> wrong = 0;
  on_ranks(3, [&](comm::Group& group) {
    KnownCollective collective(group, c10::kCPU, GetParam(), 6000);
    collective.fill(4);
    collective.call();
    for (const auto& [from, count] : collective.wrong()) {
      wrong += count;
      EXPECT_TRUE(from >= 0 && from < 3);
    }
  });
  EXPECT_EQ(wrong, 1);
}

INSTANTIATE_TEST_SUITE_P(All, KnownCollectives, ::testing::ValuesIn(collective_names()),
                         [](const auto& param) { return param.param; });

TEST(KnownCollectives, sizes_and_factors_are_those_of_nccl_tests) {
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor("reduce_scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_to_all", 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor("broadcast", 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor("send_receive", 8), 1);
  on_ranks(4, [](comm::Group& group) {
    for (const auto& name : collective_names())
      EXPECT_EQ(KnownCollective(group, c10::kCPU, name, 4096).bytes(), name == "barrier" ? 0 : 4096) << name;
    EXPECT_EQ(KnownCollective(group, c10::kCPU, "all_gather", 1).bytes(), 16) << "a number a rank at least";
  });
}

TEST(KnownValues, are_the_same_from_any_start_and_others_for_another_rank_or_seed) {
  const auto whole = known_values(1, 2, 0, 100);
  EXPECT_TRUE(known_values(1, 2, 37, 50).equal(whole.narrow(0, 37, 50)));
  EXPECT_FALSE(known_values(1, 3, 0, 100).equal(whole));
  EXPECT_FALSE(known_values(2, 2, 0, 100).equal(whole));
}

}  // namespace
}  // namespace hyperion::doctor

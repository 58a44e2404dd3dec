#include "hyperion/comm/group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "hyperion/base/error.h"
#include "hyperion/comm/gloo_transport.h"
#include "hyperion/comm/local_transport.h"

namespace hyperion::comm {
namespace {

using namespace std::chrono_literals;

// Runs `work` once a rank, each in a thread, and returns what the ranks threw. `wires` of a rank: made in its thread.
std::vector<std::string> on_ranks(int size, const std::function<std::unique_ptr<Transport>(int)>& wires,
                                  const std::function<void(Group&)>& work) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Group group("test", wires(rank));
      try {
        work(group);
      } catch (const base::Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

std::vector<std::string> on_ranks(int size, const std::function<void(Group&)>& work,
                                  std::chrono::milliseconds timeout = 20s) {
  auto transports = make_local_transports(size, timeout);
  return on_ranks(
      size, [&](int rank) { return std::move(transports[static_cast<size_t>(rank)]); }, work);
}

void expect_none(const std::vector<std::string>& errors) {
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

class Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Ranks, all_reduce_sums_every_size_and_type) {
  expect_none(on_ranks(GetParam(), [&](Group& group) {
    const double all = group.size() * (group.size() + 1) / 2.0;
    for (const int64_t count : {1, 5, 1024, 1025, 5000})
      for (const auto type : {at::kFloat, at::kBFloat16, at::kLong, at::kDouble}) {
        const auto tensor = at::full({count}, group.rank() + 1).to(type);
        group.all_reduce(tensor, "test").wait();
        EXPECT_TRUE(tensor.eq(all).all().item<bool>()) << count << " of " << tensor.scalar_type();
      }
  }));
}

TEST_P(Ranks, reduce_scatter_sums_narrow_types_in_fp32_and_adds_where_asked) {
  expect_none(on_ranks(GetParam(), [&](Group& group) {
    const int64_t piece = 24;
    // 256 + 1 has no bf16: a sum in bf16 would lose the ones.
    const auto in = at::full({piece * group.size()}, group.rank() == 0 ? 256.0 : 1.0).to(at::kBFloat16);
    const auto out = at::full({piece}, 7.0f);
    group.reduce_scatter(out, in, "test").wait();
    EXPECT_TRUE(out.eq(256.0 + group.size() - 1).all().item<bool>());
    group.reduce_scatter(out, in, "test", /*add=*/true).wait();
    EXPECT_TRUE(out.eq(2 * (256.0 + group.size() - 1)).all().item<bool>());
  }));
}

TEST_P(Ranks, sums_of_the_library_are_made_in_the_type_that_travels) {
  const auto work = [](Group& group) {
    group.reduce_by(Reduce::library);
    const double all = group.size() * (group.size() + 1) / 2.0;
    for (const int64_t count : {1, 5, 5000})
      for (const auto type : {at::kFloat, at::kBFloat16, at::kLong, at::kDouble}) {
        const auto tensor = at::full({count}, group.rank() + 1).to(type);
        group.all_reduce(tensor, "test").wait();
        EXPECT_TRUE(tensor.eq(all).all().item<bool>()) << count << " of " << tensor.scalar_type();
      }
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto in = at::arange(2 * group.size()).add(group.rank()).to(type);
      const auto expected = at::arange(2).add(2 * group.rank()).mul(group.size()).add(all - group.size());
      const auto out = at::empty({2}, at::kFloat);
      group.reduce_scatter(out, in, "test").wait();
      EXPECT_TRUE(out.eq(expected).all().item<bool>()) << type;
      group.reduce_scatter(out, in, "test", /*add=*/true).wait();
      EXPECT_TRUE(out.eq(expected.mul(2)).all().item<bool>()) << type;
    }
  };
  expect_none(on_ranks(GetParam(), work));
  const auto store = c10::make_intrusive<c10d::HashStore>();
  expect_none(on_ranks(
      GetParam(), [&](int rank) { return make_gloo_transport(store, rank, GetParam(), "127.0.0.1", 20s); }, work));
}

TEST_P(Ranks, all_gather_orders_by_rank_and_takes_its_own_piece_in_place) {
  expect_none(on_ranks(GetParam(), [&](Group& group) {
    const auto out = at::zeros({int64_t{group.size()} * 3});
    const auto own = out.narrow(0, int64_t{group.rank()} * 3, 3);
    own.fill_(group.rank());
    group.all_gather(out, own, "test").wait();
    for (int i = 0; i < group.size(); ++i) EXPECT_TRUE(out.narrow(0, int64_t{i} * 3, 3).eq(i).all().item<bool>());
  }));
}

TEST_P(Ranks, all_to_all_moves_uneven_and_empty_pieces) {
  expect_none(on_ranks(GetParam(), [&](Group& group) {
    // Rank a sends (a + b) % 3 elements of value 10 a + b to rank b.
    Transport::Counts in_counts, out_counts;
    std::vector<float> values, expected;
    for (int other = 0; other < group.size(); ++other) {
      const int count = (group.rank() + other) % 3;
      in_counts.push_back(count), out_counts.push_back(count);
      values.insert(values.end(), count, 10.0f * group.rank() + other);
      expected.insert(expected.end(), count, 10.0f * other + group.rank());
    }
    const auto count = static_cast<int64_t>(values.size());
    const auto in = at::tensor(values), out = at::zeros({count});
    group.all_to_all(out, in, out_counts, in_counts, "test").wait();
    EXPECT_TRUE(out.equal(at::tensor(expected)));
  }));
}

TEST_P(Ranks, broadcasts_texts_and_letters_arrive) {
  expect_none(on_ranks(GetParam(), [&](Group& group) {
    const int last = group.size() - 1;
    const auto tensor = at::full({4}, group.rank());
    group.broadcast(tensor, last, "test").wait();
    EXPECT_TRUE(tensor.eq(last).all().item<bool>());
    const auto texts = group.gather_text(std::string(static_cast<size_t>(group.rank()), 'x'), "test");
    ASSERT_EQ(texts.size(), static_cast<size_t>(group.size()));
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::string(i, 'x'));
    if (group.size() == 1) return;
    const auto letter = at::full({2}, 5.0), empty = at::zeros({2});
    if (group.rank() == 0) group.send(letter, last, 3, "test").wait();
    if (group.rank() == last) group.receive(empty, 0, 3, "test").wait();
    EXPECT_EQ(empty.equal(letter), group.rank() == last);
    group.barrier("test").wait();
  }));
}

// What each round sends is known to all from the seed; ranks without a part in a round are ahead by then. Some are of a
// size that no buffer on the way holds.
void exchange_at_random(Group& group, int rounds, int64_t longest) {
  std::mt19937 random(7);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Letter> sends, receives;
    std::vector<std::pair<at::Tensor, float>> expected;
    for (int letter = static_cast<int>(random() % 12); letter > 0; --letter) {
      const int from = static_cast<int>(random()) & 7, to = static_cast<int>(random()) & 7;
      const int tag = static_cast<int>(random()) & 1;
      const int64_t count = 1 + static_cast<int64_t>(random()) % (round % 100 == 0 ? longest : 20);
      const auto value = static_cast<float>(random() % 100'000);
      if (from >= group.size() || to >= group.size()) continue;
      if (from == group.rank()) sends.push_back({at::full({count}, value), to, tag});
      if (to != group.rank()) continue;
      receives.push_back({at::zeros({count}), from, tag});
      expected.emplace_back(receives.back().tensor, value);
    }
    if (sends.empty() && receives.empty()) continue;
    group.exchange(sends, receives, "test").wait();
    for (const auto& [tensor, value] : expected)
      ASSERT_TRUE(tensor.eq(value).all().item<bool>()) << round << " at rank " << group.rank();
  }
}

TEST(Group, exchanges_at_random_among_eight_never_lock) {
  expect_none(on_ranks(8, [](Group& group) { exchange_at_random(group, 10'000, 1000); }));
}

TEST(Group, exchanges_over_gloo_of_ranks_that_all_send_first_never_lock) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  expect_none(on_ranks(
      4, [&](int rank) { return make_gloo_transport(store, rank, 4, "127.0.0.1", 20s); },
      [](Group& group) {
        const int next = (group.rank() + 1) % 4, last = (group.rank() + 3) % 4;
        const auto out = at::full({1 << 20}, group.rank()), in = at::zeros({1 << 20}, at::kLong);
        group.exchange({{out, next}}, {{in, last}}, "test").wait();
        EXPECT_TRUE(in.eq(last).all().item<bool>());
        exchange_at_random(group, 500, 300'000);
      }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Ranks, ::testing::Values(1, 2, 3, 4, 5));

TEST(Group, counts_what_it_sends_by_operation_and_caller) {
  expect_none(on_ranks(4, [](Group& group) {
    const auto weights = at::zeros({4000});
    group.all_gather(weights, weights.narrow(0, int64_t{group.rank()} * 1000, 1000), "weights").wait();
    group.all_reduce(weights, "gradients").wait();
    group.all_reduce(weights, "gradients").wait();
    const auto traffic = group.traffic();
    EXPECT_EQ(traffic.at("all_gather weights").bytes, 3 * 4000);
    EXPECT_EQ(traffic.at("all_reduce gradients").bytes, 2 * (2 * 16000 * 3 / 4));
    EXPECT_EQ(traffic.at("all_reduce gradients").calls, 2);
    EXPECT_EQ(group.total().bytes, 3 * 4000 + 48000);
    group.reset_traffic();
    EXPECT_EQ(group.total().calls, 0);
  }));
}

TEST(Group, a_slow_link_is_hidden_by_work_and_shown_where_it_is_waited_for) {
  expect_none(on_ranks(2, [](Group& group) {
    group.set_slow_link(slow_link_of("1MB/s"));  // 50 ms for the bytes below
    const auto tensor = at::zeros({50'000 / 4});
    auto hidden = group.all_reduce(tensor, "hidden");
    std::this_thread::sleep_for(200ms);
    hidden.wait();
    group.all_reduce(tensor, "shown").wait();
    const auto traffic = group.traffic();
    EXPECT_GT(traffic.at("all_reduce hidden").seconds, 0.04);
    EXPECT_EQ(traffic.at("all_reduce hidden").exposed, 0);
    EXPECT_GT(traffic.at("all_reduce shown").exposed, 0.04);
  }));
}

TEST(Group, names_ranks_that_ask_for_something_else) {
  const auto errors = on_ranks(3, [](Group& group) {
    const auto tensor = at::zeros({group.rank() == 1 ? 8 : 4});
    group.broadcast(tensor, 0, "test").wait();
  });
  for (const auto& error : errors) EXPECT_NE(error.find("broadcast"), error.npos) << error;
  EXPECT_NE(errors[0].find("rank 1 asks for broadcast of 32 bytes"), std::string::npos) << errors[0];
}

TEST(Group, names_a_rank_that_stays_away_and_fails_all_that_follows) {
  const auto errors = on_ranks(
      3,
      [](Group& group) {
        if (group.rank() == 2) return;
        auto first = group.barrier("test");
        auto second = group.barrier("test");
        EXPECT_THROW(first.wait(), base::Error);
        second.wait();
      },
      100ms);
  EXPECT_NE(errors[0].find("for rank 2"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("for rank"), std::string::npos) << errors[1];
}

// Groups of some ranks: nobody looks for a log by a place in a group.
TEST(Group, calls_ranks_by_their_place_in_the_job) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex;
  std::vector<std::string> told;
  expect_none(on_ranks(
      2,
      [&](int rank) {
        auto transport = make_gloo_transport(store, rank, 2, "127.0.0.1", 20s);
        transport->name_ranks({7, 4});
        return transport;
      },
      [&](Group& group) {
        const auto tensor = at::zeros({4});
        if (group.rank() == 0) {
          std::this_thread::sleep_for(2s);
          group.send(tensor, 1, 0, "test").wait();
          return;
        }
        group.watch(100ms, [&](const std::string& text) {
          const std::lock_guard lock(mutex);
          told.push_back(text);
        });
        group.receive(tensor, 0, 0, "test").wait();
      }));
  ASSERT_FALSE(told.empty());
  EXPECT_NE(told[0].find("on rank 4; no word from rank 7"), std::string::npos) << told[0];
}

TEST(Group, tells_of_a_call_that_waits_while_it_waits_and_who_is_missing) {
  std::mutex mutex;
  std::vector<std::string> told;
  expect_none(on_ranks(3, [&](Group& group) {
    if (group.rank() == 2) std::this_thread::sleep_for(600ms);
    if (group.rank() != 2)
      group.watch(100ms, [&](const std::string& text) {
        const std::lock_guard lock(mutex);
        told.push_back(text);
      });
    const auto tensor = at::zeros({2000});
    group.all_reduce(tensor, "gradients").wait();
    group.barrier("end").wait();
  }));
  ASSERT_GE(told.size(), 2u) << "each of the two that waited";
  EXPECT_NE(told[0].find("all_reduce (gradients, 10.4 KiB) in group test has waited"), std::string::npos) << told[0];
  EXPECT_NE(told[0].find("; no word from rank 2"), std::string::npos) << told[0];
}

TEST(Group, says_nothing_of_calls_that_end_in_time) {
  std::atomic<int> told = 0;
  expect_none(on_ranks(2, [&](Group& group) {
    group.watch(5s, [&](const std::string&) { ++told; });
    for (int i = 0; i < 50; ++i) group.barrier("test").wait();
  }));
  EXPECT_EQ(told, 0);
}

TEST(Group, compares_calls_before_they_are_made) {
  const auto errors = on_ranks(3, [](Group& group) {
    group.check_calls();
    const auto tensor = at::zeros({4}, group.rank() == 1 ? at::kInt : at::kFloat);
    group.all_reduce(tensor, "gradients").wait();
  });
  EXPECT_NE(errors[0].find("rank 1 asks for all_reduce of 4 x Int for gradients"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("rank 0 asks for all_reduce of 4 x Float"), std::string::npos) << errors[1];
  EXPECT_NE(errors[2].find("rank 1"), std::string::npos) << errors[2];
}

TEST(Group, reads_slow_links_and_refuses_others) {
  EXPECT_EQ(slow_link_of("50MB/s,200us").bytes_per_second, 50e6);
  EXPECT_DOUBLE_EQ(slow_link_of("200us").latency, 200e-6);
  EXPECT_THROW(slow_link_of("fast"), base::ConfigError);
}

// Dealing 8 leaves to 2 or 4 ranks in turn and summing each rank's, then the ranks', must be the tree over all 8.
TEST(TreeSum, is_the_same_tree_for_every_power_of_two_of_ranks) {
  std::vector<at::Tensor> leaves;
  for (int i = 0; i < 8; ++i) leaves.push_back(at::arange(1, 50).to(at::kFloat).mul(0.1f + 0.37f * i).sin());
  const auto whole = tree_sum(leaves);
  for (const size_t ranks : {2, 4, 8}) {
    std::vector<at::Tensor> sums;
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<at::Tensor> own;
      for (size_t i = rank; i < leaves.size(); i += ranks) own.push_back(leaves[i]);
      sums.push_back(tree_sum(own));
    }
    EXPECT_TRUE(tree_sum(sums).equal(whole)) << ranks;
  }
}

}  // namespace
}  // namespace hyperion::comm

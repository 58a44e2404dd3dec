#include "hyperion/doctor/links.h"

#include <gtest/gtest.h>

#include <set>

namespace hyperion::doctor {
namespace {

// All links of so many ranks alike: 10 us and 1 GB/s.
std::vector<Link> alike(int ranks) {
  std::vector<Link> links;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (from != to) links.push_back({from, to, 10e-6, 1e9, 0});
  return links;
}

Link& link(std::vector<Link>& links, int from, int to) {
  for (auto& one : links)
    if (one.from == from && one.to == to) return one;
  throw std::runtime_error("no such link");
}

std::vector<std::string> told(const std::vector<Link>& links, const std::vector<std::string>& hosts) {
  return link_fault_texts(find_link_faults(links, hosts, 3), links, hosts);
}

TEST(Links, alike_have_no_fault_and_some_noise_is_none) {
  auto links = alike(4);
  const std::vector<std::string> hosts(4, "a");
  EXPECT_TRUE(told(links, hosts).empty());
  link(links, 1, 2).bandwidth = 0.4e9;
  link(links, 1, 2).latency = 28e-6;
  link(links, 3, 0).bandwidth = 5e9;
  EXPECT_TRUE(told(links, hosts).empty());
}

TEST(Links, one_slow_link_is_named_with_its_direction) {
  auto links = alike(4);
  link(links, 1, 2).bandwidth = 0.2e9;
  const auto texts = told(links, {"a", "b", "c", "d"});
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0], "rank 1 (b) to rank 2 (c): bandwidth 200.0 MB/s, where others have 1.00 GB/s");
}

// In a job of three, four links of six are those of one rank: the middle of all would be a slow one.
TEST(Links, a_rank_that_is_slow_with_all_is_named_even_among_three) {
  for (const int ranks : {3, 4, 8}) {
    auto links = alike(ranks);
    for (auto& one : links)
      if (one.from == 2 || one.to == 2) one.latency = 1e-3;
    const auto texts = told(links, std::vector<std::string>(static_cast<size_t>(ranks), "a"));
    ASSERT_EQ(texts.size(), 1u) << ranks;
    EXPECT_EQ(texts[0], "rank 2 (a) from and to every other rank: latency 1000.0 us, where others have 10.0 us");
  }
}

TEST(Links, a_rank_that_only_sends_slowly_and_one_that_only_receives_slowly_are_told_apart) {
  auto links = alike(5);
  for (auto& one : links)
    if (one.from == 1 || one.to == 4) one.bandwidth = 1e7;
  const auto texts = told(links, std::vector<std::string>(5, "a"));
  ASSERT_EQ(texts.size(), 4u);
  EXPECT_NE(texts[0].find("rank 1 (a) to every other rank: bandwidth 10.0 MB/s"), std::string::npos) << texts[0];
  for (size_t i = 1; i < 4; ++i) EXPECT_NE(texts[i].find("to rank 4 (a): bandwidth"), std::string::npos) << texts[i];
}

TEST(Links, of_two_ranks_the_slower_direction_is_named) {
  auto links = alike(2);
  link(links, 1, 0).bandwidth = 1e6;
  const auto texts = told(links, {"a", "b"});
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("rank 1 (b) to rank 0 (a)"), std::string::npos) << texts[0];
}

// What leaves a machine is slower than what stays in it, and no fault.
TEST(Links, within_a_machine_and_between_machines_each_have_their_own_measure) {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  auto links = alike(4);
  for (auto& one : links)
    if (hosts[static_cast<size_t>(one.from)] != hosts[static_cast<size_t>(one.to)]) one.bandwidth = 0.05e9;
  EXPECT_TRUE(told(links, hosts).empty());
  link(links, 0, 3).bandwidth = 0.01e9;
  EXPECT_EQ(told(links, hosts).size(), 1u);
}

TEST(Links, what_arrives_wrong_is_named) {
  auto links = alike(3);
  link(links, 0, 1).wrong = 3;
  const auto texts = told(links, {"a", "a", "b"});
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0], "rank 0 (a) to rank 1 (a): 3 wrong numbers");
}

TEST(Links, rounds_hold_each_pair_once_and_no_rank_twice) {
  for (int ranks = 2; ranks < 12; ++ranks)
    for (const bool alone : {true, false}) {
      std::set<std::pair<int, int>> all;
      for (const auto& round : pair_rounds(ranks, alone)) {
        std::set<int> busy;
        for (const auto& [a, b] : round) {
          EXPECT_TRUE(a < b && busy.insert(a).second && busy.insert(b).second) << ranks;
          EXPECT_TRUE(all.emplace(a, b).second) << ranks;
        }
        EXPECT_TRUE(!alone || round.size() == 1) << ranks;
      }
      EXPECT_EQ(all.size(), static_cast<size_t>(ranks * (ranks - 1) / 2)) << ranks;
    }
}

}  // namespace
}  // namespace hyperion::doctor

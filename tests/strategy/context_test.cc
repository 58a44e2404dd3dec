#include "hyperion/strategy/context.h"

#include <gtest/gtest.h>

#include <vector>

#include "hyperion/base/error.h"

namespace hyperion::strategy {
namespace {

std::string refused(const std::string& layout, ContextMethod method, int64_t length, const TokenMixing& mixing) {
  try {
    check_context(parse_layout(layout), method, length, mixing);
  } catch (const base::ConfigError& error) {
    return base::error_text(error);
  }
  return {};
}

// A causal query sees all before it: pairs of tokens are work.
TEST(Context, deals_out_every_token_once_and_by_ring_equal_work) {
  for (const auto method : {ContextMethod::ring, ContextMethod::ulysses})
    for (const int64_t processes : {1, 2, 3, 4}) {
      const int64_t length = 24;
      std::vector<int> owners(length, 0);
      std::vector<int64_t> work;
      for (int64_t i = 0; i < processes; ++i) {
        const auto cut = token_cut(method, processes, i, length);
        EXPECT_EQ(cut.own(), length / processes);
        work.push_back(0);
        for (const int64_t first : {cut.first, cut.second})
          for (int64_t token = first; first >= 0 && token < first + cut.run; ++token)
            ++owners[static_cast<size_t>(token)], work.back() += token + 1;
      }
      EXPECT_EQ(owners, std::vector<int>(length, 1));
      if (method != ContextMethod::ring) continue;
      EXPECT_EQ(work, std::vector<int64_t>(work.size(), work[0]));
    }
}

// What sequence parallelism makes of it: in the order of a process's tokens.
TEST(Context, cuts_a_process_s_tokens_once_more) {
  for (const auto method : {ContextMethod::ring, ContextMethod::ulysses})
    for (const int64_t parts : {2, 4}) {
      const auto cut = token_cut(method, 3, 1, 48);
      std::vector<int64_t> all, again;
      const auto add = [](std::vector<int64_t>& to, const TokenCut& of) {
        for (const int64_t first : {of.first, of.second})
          for (int64_t token = first; first >= 0 && token < first + of.run; ++token) to.push_back(token);
      };
      add(all, cut);
      for (int64_t i = 0; i < parts; ++i) add(again, part_of(cut, parts, i));
      EXPECT_EQ(again, all);
    }
  const auto refused = [](const char* layout, ContextMethod method, int64_t length) -> std::string {
    try {
      check_sequence_in_context(parse_layout(layout), method, length);
    } catch (const base::ConfigError& error) {
      return base::error_text(error);
    }
    return {};
  };
  EXPECT_EQ(refused("cp=2,tp=2", ContextMethod::ring, 16), "");
  EXPECT_EQ(refused("cp=2,tp=3", ContextMethod::ulysses, 18), "");
  EXPECT_NE(refused("cp=2,tp=3", ContextMethod::ring, 24).find("an even tp"), std::string::npos);
  EXPECT_NE(refused("cp=2,tp=4", ContextMethod::ring, 20).find("that 8 divides"), std::string::npos);
}

TEST(Context, refuses_with_what_would_do) {
  const TokenMixing four{4, 2, 8};
  EXPECT_EQ(refused("cp=2", ContextMethod::ring, 16, four), "");
  EXPECT_EQ(refused("cp=4", ContextMethod::ulysses, 16, four), "");
  EXPECT_NE(refused("cp=2", ContextMethod::ring, 18, four).find("16 or 20"), std::string::npos);
  EXPECT_NE(refused("cp=3", ContextMethod::ulysses, 18, four).find("use cp=1"), std::string::npos);
  EXPECT_NE(refused("tp=2,cp=4", ContextMethod::ulysses, 16, four).find("use cp=2"), std::string::npos);
  EXPECT_NE(refused("cp=2", ContextMethod::ring, 16, {}).find("use dp=2"), std::string::npos);
  EXPECT_NE(refused("cp=2", ContextMethod::ring, 16, {4, 2, 8, true}).find("model.capacity"), std::string::npos);
}

TEST(Context, copies_key_heads_where_there_are_fewer_than_processes) {
  EXPECT_EQ(key_value_copies(4, 2), 1);
  EXPECT_EQ(key_value_copies(1, 4), 4);
  EXPECT_EQ(key_value_copies(2, 4), 2);
  EXPECT_EQ(key_value_copies(6, 4), 2);
}

}  // namespace
}  // namespace hyperion::strategy

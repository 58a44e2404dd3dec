#include "hyperion/strategy/cut.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::strategy {
namespace {

using Shape = std::vector<int64_t>;

const std::vector<CutRule> kRules = {
    {"table.weight", {CutKind::vocabulary}},
    {"layers.#.q.*", {CutKind::heads, 0, 4}},
    {"layers.#.o.weight", {CutKind::row, 1, 4}},
    {"layers.#.o.bias", {CutKind::row_bias}},
    {"layers.#.experts.#.up.weight", {CutKind::column}, 6},
    {"layers.#.packed.weight", {CutKind::heads, 1, 4, {"q", "k", "v"}}},
};

TEST(CutRules, match_whole_names_with_numbers_and_rests) {
  const CutRule& rest = kRules[1];
  EXPECT_TRUE(matches(rest, "layers.0.q.weight"));
  EXPECT_TRUE(matches(rest, "layers.12.q.bias"));
  for (const char* name : {"layers.0.q.", "layers.q.weight", "layers.x.q.weight", "a.layers.0.q.weight", "layers.0.q"})
    EXPECT_FALSE(matches(rest, name)) << name;
  EXPECT_FALSE(matches(kRules[2], "layers.0.o.weights"));
  EXPECT_FALSE(matches(kRules[2], "layers.0.o.weigh"));
}

TEST(CutRules, find_the_expert_by_the_last_number) {
  const auto found = cut_of(kRules, "layers.3.experts.5.up.weight");
  EXPECT_EQ(found.experts, 6);
  EXPECT_EQ(found.expert, 5);
  EXPECT_EQ(cut_of(kRules, "layers.3.q.weight").expert, -1);
  EXPECT_THROW(cut_of(kRules, "layers.0.norm.weight"), base::ConfigError);
}

TEST(CutRules, cut_the_side_of_an_adapter_that_lies_beside_what_is_cut) {
  const auto sides = [](const std::string& layer) {
    return std::pair{cut_of(kRules, layer + ".lora_A.mine.weight").cut,
                     cut_of(kRules, layer + ".lora_B.mine.weight").cut};
  };
  const auto [query_a, query_b] = sides("layers.0.q");
  EXPECT_EQ(query_a.kind, CutKind::none);
  EXPECT_EQ(query_a.copies, Copies::partial);
  EXPECT_EQ(query_b.kind, CutKind::heads);
  const auto [out_a, out_b] = sides("layers.0.o");
  EXPECT_EQ(out_a.kind, CutKind::row);
  EXPECT_EQ(out_a.dim, 1);
  EXPECT_EQ(out_b.kind, CutKind::none);
  EXPECT_EQ(out_b.copies, Copies::partial);
  const auto [packed_a, packed_b] = sides("layers.0.packed");  // stored [in, out], its adapter [out, rank]
  EXPECT_EQ(packed_b.dim, 0);
  EXPECT_EQ(packed_b.parts.size(), 3U);
  EXPECT_EQ(cut_of(kRules, "table.token_adapter.trainable_tokens_delta").cut.kind, CutKind::none);
}

TEST(Cut, gives_a_box_of_each_part) {
  const auto boxes = boxes_of(kRules[5].cut, "packed", {10, 24}, 2, 1);
  ASSERT_EQ(boxes.size(), 3U);
  for (int64_t part = 0; part < 3; ++part) {
    const auto& box = boxes[static_cast<size_t>(part)];
    EXPECT_EQ(box.whole, (Shape{10, 24}));
    EXPECT_EQ(box.offset, (Shape{0, 8 * part + 4}));
    EXPECT_EQ(box.size, (Shape{10, 4}));
  }
}

TEST(Cut, holds_all_of_it_where_nothing_is_cut_or_nobody_shares) {
  for (const auto& [cut, size] : {std::pair{Cut{}, 4}, std::pair{Cut{CutKind::row_bias}, 4}, {kRules[1].cut, 1}}) {
    const auto boxes = boxes_of(cut, "x", {8, 3}, size, 0);
    ASSERT_EQ(boxes.size(), 1U);
    EXPECT_FALSE(boxes[0].cut());
  }
}

TEST(Cut, shares_key_and_value_heads_with_the_query_heads_that_use_them) {
  const Cut queries{CutKind::heads, 0, 16}, keys{CutKind::key_value_heads, 0, 2};
  for (int64_t index = 0; index < 8; ++index) {
    const auto query = boxes_of(queries, "q", {80, 7}, 8, index)[0], key = boxes_of(keys, "k", {10, 7}, 8, index)[0];
    EXPECT_EQ(key.size, (Shape{5, 7}));
    EXPECT_EQ(key.offset[0] / 5, query.offset[0] / 5 / 8) << "of 8 query heads that share one";
    const auto [first, count] = sharers_of(keys, 8, index);
    EXPECT_EQ(first, index / 4 * 4);
    EXPECT_EQ(count, 4);
    EXPECT_EQ(sharers_of(queries, 8, index).count, 1);
  }
  EXPECT_EQ(sharers_of(keys, 2, 1).first, 1);
  EXPECT_EQ(sharers_of(Cut{}, 8, 3).count, 8);
}

TEST(Cut, spreads_a_vocabulary_of_any_size) {
  int64_t next = 0;
  for (int64_t index = 0; index < 8; ++index) {
    const auto box = boxes_of(kRules[0].cut, "table", {50257, 4}, 8, index)[0];
    EXPECT_EQ(box.offset[0], next);
    EXPECT_NEAR(static_cast<double>(box.size[0]), 50257.0 / 8, 1);
    next += box.size[0];
  }
  EXPECT_EQ(next, 50257);
}

std::string refusal(const Cut& cut, const Shape& whole, int64_t size) {
  try {
    boxes_of(cut, "layers.0.x.weight", whole, size, 0);
  } catch (const base::ConfigError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return "";
}

TEST(Cut, says_what_does_not_divide_and_which_sizes_do) {
  EXPECT_EQ(
      refusal({CutKind::heads, 0, 12}, {24, 4}, 8),
      "layers.0.x.weight cannot be cut among 8 processes: it has 12 heads; sizes of tp that do: 1, 2, 3, 4, 6, 12");
  EXPECT_EQ(refusal({CutKind::row, 1}, {4, 6}, 4),
            "layers.0.x.weight cannot be cut among 4 processes: it has 6 inputs; sizes of tp that do: 1, 2, 3, 6");
  EXPECT_EQ(refusal({CutKind::key_value_heads, 0, 4}, {8, 6}, 6),
            "layers.0.x.weight cannot be cut among 6 processes: it has 4 key and value heads; sizes of tp that do: "
            "1, 2, 4, or a multiple of 4");
  EXPECT_EQ(refusal({CutKind::vocabulary}, {3, 6}, 4),
            "layers.0.x.weight cannot be cut among 4 processes: it has 3 rows; sizes of tp that do: no more than 3");
  EXPECT_THROW(holds_expert(0, 6, 4, 0), base::ConfigError);
}

TEST(Cut, of_a_mesh_gives_each_expert_to_one_of_ep_and_cuts_it_by_tp) {
  const auto layout = parse_layout("dp=3,tp=2,ep=3");
  std::vector<int> holders(6);
  for (int rank = 0; rank < 6; ++rank)
    for (int expert = 0; expert < 6; ++expert) {
      const Mesh mesh(layout, rank);
      const auto boxes = held_by(mesh, kRules, "layers.0.experts." + std::to_string(expert) + ".up.weight", {4, 5});
      if (boxes.empty()) continue;
      ++holders[static_cast<size_t>(expert)];
      EXPECT_EQ(boxes[0].size, (Shape{2, 5}));
      EXPECT_EQ(boxes[0].offset[0], 2 * mesh.index(Axis::tp));
    }
  for (const int count : holders) EXPECT_EQ(count, 2);
  EXPECT_EQ(held_by(Mesh(layout, 4), kRules, "layers.0.o.bias", {4}).size(), 1U);
}

}  // namespace
}  // namespace hyperion::strategy

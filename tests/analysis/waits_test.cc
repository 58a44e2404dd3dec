#include "hyperion/analysis/waits.h"

#include <gtest/gtest.h>

#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;

void span(SmallTrace& small, const char* name, const char* thread, int64_t begin, int64_t end, const char* args = "") {
  small.add("user_annotation", name, "\"hyperion\"", thread, begin, end, args);
}

Timeline waits_of(SmallTrace& small) {
  auto timeline = timeline_of(small.take());
  find_waits(timeline);
  return timeline;
}

const Piece* piece_named(const Timeline& timeline, std::string_view name) {
  for (const auto& piece : timeline.pieces)
    if (piece.name != trace::kNoString && timeline.names[piece.name] == name) return &piece;
  return nullptr;
}

constexpr const char* kGroup = R"("args": {"group": "a", "ranks": "0, 1", "number": 0})";

// The thread that waits may come to run long after what it waited for, on cores that are busy.
TEST(Waits, that_say_for_what_end_with_it_however_long_after) {
  SmallTrace small;
  small.op("aten::mm", 0, 1'000'000);
  span(small, "step", "0", 0, 20'000'000);
  span(small, "wait receive", "0", 1'000'000, 12'000'000);
  span(small, "receive hidden states", "1", 500'000, 6'000'000, kGroup);
  span(small, "send hidden gradients", "2", 8'000'000, 11'990'000, kGroup);
  const auto timeline = waits_of(small);
  const auto* wait = piece_named(timeline, "wait receive");
  ASSERT_NE(wait, nullptr);
  EXPECT_EQ(wait->kind, PieceKind::wait);
  ASSERT_NE(wait->until, kNoMoment);
  const auto& awaited = timeline.pieces[wait->until / 2];
  EXPECT_EQ(timeline.names[awaited.name], "receive hidden states");
}

// Ranks agree on a step while its input is taken: that is no input.
TEST(Waits, within_an_input_are_none) {
  SmallTrace small;
  small.op("aten::mm", 0, 1'000'000);
  span(small, "data", "0", 1'000'000, 9'000'000);
  span(small, "feed wait", "0", 1'000'000, 3'000'000);
  span(small, "wait all_gather", "0", 4'000'000, 9'000'000);
  const auto timeline = waits_of(small);
  ASSERT_NE(piece_named(timeline, "feed wait"), nullptr);
  EXPECT_EQ(piece_named(timeline, "feed wait")->kind, PieceKind::input);
  EXPECT_EQ(piece_named(timeline, "wait all_gather")->kind, PieceKind::wait);
}

}  // namespace
}  // namespace hyperion::analysis

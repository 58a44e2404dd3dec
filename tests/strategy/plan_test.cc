#include "hyperion/strategy/plan.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/strategy/plan_walk.h"
#include "tests/strategy/support_plans.h"

namespace hyperion::strategy {
namespace {

double sent(const Plan& plan, size_t rank, const std::string& group, Payload payload) {
  double bytes = 0;
  for (const auto& instruction : plan.ranks[rank])
    if (instruction.payload == payload &&
        (instruction.group < 0 ? "pp" : plan.groups[static_cast<size_t>(instruction.group)].name) == group)
      bytes += plan.bytes_sent(instruction);
  return bytes;
}

constexpr double kBlock = 32 + 2 * 32 * 32 + 16 * 32 + 8 * 32 * 32;  // parameters of planned_model's

TEST(Plan, of_one_process_computes_and_says_nothing) {
  const auto plan = make_plan(planned_model({}), {.micro_batches = 3});
  ASSERT_EQ(plan.ranks.size(), 1u);
  for (const auto& instruction : plan.ranks[0])
    EXPECT_TRUE(instruction.peer < 0 && instruction.group < 0) << plan.text(instruction);
  EXPECT_EQ(plan.ranks[0].size(), 3 * 2 + 1u);
  EXPECT_EQ(plan.parameters[0], 4 * kBlock + 32 + 2 * 100 * 32);
}

// docs/parallel.md: what each process sends with each stage of ZeRO.
TEST(Plan, zero_sends_what_its_table_says) {
  const double all = 4 * kBlock + 32 + 2 * 100 * 32, bytes = 4 * all * 3 / 4;  // of four processes, each other's part
  for (const int64_t zero : {0, 1, 2, 3})
    for (const int64_t parts : {1, 3}) {
      const auto plan =
          make_plan(planned_model({}), {.layout = parse_layout("dp=4"), .micro_batches = parts, .zero = zero});
      const auto times = static_cast<double>(parts);
      EXPECT_DOUBLE_EQ(sent(plan, 0, "dp", Payload::gradients), zero == 0   ? 2 * bytes
                                                                : zero == 1 ? bytes
                                                                            : times * bytes);
      EXPECT_DOUBLE_EQ(sent(plan, 0, "dp", Payload::weights), zero == 0 ? 0
                                                              : zero == 3
                                                                  ? 3 * ((all - 4 * kBlock) + times * 7 * kBlock)
                                                                  : bytes);
    }
}

TEST(Plan, zero_3_has_what_lies_outside_and_two_blocks_whole_at_once) {
  const PlannedStep cut{.layout = parse_layout("dp=4"), .zero = 3}, whole{.layout = parse_layout("dp=4"), .zero = 2};
  EXPECT_EQ(make_plan(planned_model({}), cut).gathered[0], 2 * kBlock + 32 + 2 * 100 * 32);
  EXPECT_EQ(make_plan(planned_model({}), whole).gathered[0], 0);
}

TEST(Plan, too_long_a_list_is_refused_before_it_is_made) {
  EXPECT_THROW(make_plan(planned_model({}), {.layout = {.dp_shard = 1 << 20}}), base::ConfigError);
  EXPECT_THROW(make_plan(planned_model({}), {.layout = parse_layout("dp=64,tp=4"), .micro_batches = 4096, .zero = 3}),
               base::ConfigError);
}

// Two sums a block and direction, or as many pairs of a gather and a scatter, which send as much.
TEST(Plan, tensor_parallel_sends_hidden_states_twice_a_block_and_direction) {
  const double state = 2 * 8 * 32 * 4;  // bytes of a micro-batch's hidden states
  for (const bool sequence : {false, true}) {
    const auto plan = make_plan(
        planned_model({}),
        {.layout = parse_layout("tp=2"), .micro_batches = 3, .samples = 2, .length = 8, .sequence_parallel = sequence});
    // The table's sum; with sequence parallelism the output's gather too, and in the backward those of both ends.
    EXPECT_DOUBLE_EQ(sent(plan, 0, "tp", Payload::hidden_states), 3 * (2 * 8 + 2) * state / 2);
    EXPECT_DOUBLE_EQ(sent(plan, 0, "tp", Payload::hidden_gradients), 3 * (2 * 8 + 2) * state / 2);
  }
}

TEST(Plan, stages_send_each_micro_batch_once_down_and_once_up) {
  const auto plan =
      make_plan(planned_model({}), {.layout = parse_layout("pp=4"), .micro_batches = 5, .samples = 2, .length = 8});
  const double state = 2 * 8 * 32 * 4;
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_DOUBLE_EQ(sent(plan, rank, "pp", Payload::hidden_states), rank < 3 ? 5 * state : 0);
    EXPECT_DOUBLE_EQ(sent(plan, rank, "pp", Payload::hidden_gradients), rank > 0 ? 5 * state : 0);
    EXPECT_EQ(plan.kept[rank], 4 - static_cast<int64_t>(rank));
  }
}

TEST(Plan, a_tied_table_is_held_and_summed_by_both_ends) {
  const auto plan = make_plan(planned_model({.tied = true}), {.layout = parse_layout("pp=4"), .micro_batches = 4});
  for (const size_t rank : {0, 1, 2, 3})
    EXPECT_DOUBLE_EQ(sent(plan, rank, "pp", Payload::gradients), rank == 0 || rank == 3 ? 2 * 100 * 32 * 4 / 2 : 0);
  EXPECT_EQ(plan.parameters[0], kBlock + 100 * 32);
  EXPECT_EQ(plan.parameters[3], kBlock + 100 * 32 + 32);
}

TEST(Plan, key_value_heads_that_several_hold_are_summed_among_these) {
  const auto plan = make_plan(planned_model({.key_value_heads = 2}), {.layout = parse_layout("tp=4")});
  EXPECT_EQ(plan.parameters[0], 4 * (32 + 2 * 8 * 32 + 8 * 32 + 8 * 8 * 32) + 32 + 2 * 25 * 32);
  EXPECT_DOUBLE_EQ(sent(plan, 0, "tp", Payload::gradients), 4 * 4 * 8 * 32);
  const bool pairs = std::any_of(plan.groups.begin(), plan.groups.end(), [](const auto& group) {
    return group.ranks == std::vector<int>{2, 3};
  });
  EXPECT_TRUE(pairs);
}

TEST(Plan, says_what_is_impossible_and_what_would_do) {
  const auto refused = [](const PlannedModel& model, const PlannedStep& step) {
    try {
      make_plan(model, step);
    } catch (const base::ConfigError& error) {
      return std::string(error.what()) + " / " + error.hint();
    }
    return std::string("taken");
  };
  auto uncut = planned_model({});
  uncut.cuts.clear();
  EXPECT_NE(refused(uncut, {.layout = parse_layout("dp=2,tp=2")}).find("data parallel only / use dp=4"),
            std::string::npos);
  EXPECT_NE(refused(planned_model({}), {.layout = parse_layout("tp=3")}).find("sizes of tp that do: 1, 2"),
            std::string::npos);
  EXPECT_NE(refused(planned_model({}), {.layout = parse_layout("pp=5")}).find("at most 4 stages"), std::string::npos);
  EXPECT_NE(refused(planned_model({}), {.layout = parse_layout("cp=2")}).find("no cp"), std::string::npos);
  EXPECT_NE(refused(planned_model({}), {.layout = parse_layout("tp=2"), .length = 3, .sequence_parallel = true})
                .find("tp divides"),
            std::string::npos);
}

// A clock in place of computing: stages that take as long, messages a hundredth of a forward, a backward twice a
// forward.
TEST(PlanWalk, bubbles_are_those_of_theory) {
  auto model = planned_model({.blocks = 8});
  model.costs.last = 0;
  for (const bool interleaved : {false, true})
    for (const int64_t count : {8, 12, 16})
      for (const double latency : {0.0, 0.01}) {
        const PlannedStep step{
            .layout = parse_layout("pp=4"),
            .schedule = interleaved ? PipelineSchedule::interleaved : PipelineSchedule::one_forward_one_backward,
            .chunks = interleaved ? 2 : 1,
            .micro_batches = count};
        const auto plan = make_plan(model, step);
        const auto walked = walk(plan, [&](int, const Instruction& instruction) {
          const double forward = interleaved ? 0.5 : 1;
          return instruction.does == Does::forward    ? forward
                 : instruction.does == Does::backward ? 2 * forward
                 : instruction.does == Does::send     ? latency
                                                      : 0;
        });
        ASSERT_FALSE(walked.defect);
        EXPECT_NEAR(walked.bubble(plan), bubble_of(plan.pipeline), latency == 0 ? 1e-9 : 0.03)
            << count << " " << interleaved;
      }
}

// The order of a rank's list, and that nothing begins before what it waits for.
TEST(PlanWalk, times_follow_the_lists_and_the_messages) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const auto [model, step] = random_plan(random);
    const auto plan = make_plan(model, step);
    const auto walked = walk(plan, [](int rank, const Instruction& i) {
      return i.does == Does::forward ? 1.0 + 0.1 * rank : i.does == Does::backward ? 2.5 : 0.05;
    });
    ASSERT_FALSE(walked.defect);
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      double last = 0;
      for (const auto& [begin, end] : walked.times[rank]) {
        EXPECT_EQ(begin, last);
        EXPECT_GE(end, begin);
        last = end;
      }
      EXPECT_LE(last, walked.end);
    }
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
      for (size_t at = 0; at < plan.ranks[rank].size(); ++at) {
        const auto& receive = plan.ranks[rank][at];
        if (receive.does != Does::receive) continue;
        const auto& other = plan.ranks[static_cast<size_t>(receive.peer)];
        for (size_t i = 0; i < other.size(); ++i) {
          const bool sent = other[i].does == Does::send && other[i].peer == static_cast<int>(rank) &&
                            other[i].payload == receive.payload && other[i].micro_batch == receive.micro_batch &&
                            other[i].stage + (receive.payload == Payload::hidden_states ? 1 : -1) == receive.stage;
          const double arrives = walked.times[static_cast<size_t>(receive.peer)][i].end + 0.05;
          EXPECT_TRUE(!sent || walked.times[rank][at].end >= arrives - 1e-9);
        }
      }
  }
}

}  // namespace
}  // namespace hyperion::strategy

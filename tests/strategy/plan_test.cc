#include "hyperion/strategy/plan.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/words.h"
#include "hyperion/strategy/plan_check.h"
#include "hyperion/strategy/plan_memory.h"
#include "hyperion/strategy/plan_walk.h"
#include "hyperion/strategy/stage_work.h"
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

// Keys and values go round once forward, and once more backward with their gradients behind them, in fp32.
TEST(Plan, context_parallel_sends_keys_round_or_heads_to_all) {
  auto model = planned_model({});
  model.mixing = {4, 2, 8};
  const PlannedStep ring{.layout = parse_layout("cp=4"), .samples = 2, .length = 16, .element = 2};
  const double keys = 2 * 2 * (2 * 4 * 8);  // numbers: keys and values of 2 heads, of 2 samples of 4 tokens here
  const auto plan = make_plan(model, ring);
  EXPECT_DOUBLE_EQ(sent(plan, 0, "cp", Payload::keys), 4 * 2 * 3 * keys * 2);
  EXPECT_DOUBLE_EQ(sent(plan, 0, "cp", Payload::key_gradients), 4 * 3 * keys * 4);
  auto ulysses = ring;
  ulysses.context = ContextMethod::ulysses;
  const double heads = (4 + 2 * 4 + 4) * (2 * 4 * 8) * 2;  // bytes: 2 heads of keys are sent twice
  const auto other = make_plan(model, ulysses);
  EXPECT_DOUBLE_EQ(sent(other, 0, "cp", Payload::heads), 4 * heads * 3 / 4);
  EXPECT_DOUBLE_EQ(sent(other, 0, "cp", Payload::head_gradients), 4 * heads * 3 / 4);
  for (const auto* each : {&plan, &other}) EXPECT_NO_THROW(check(*each));
}

// Of 4 experts a process of ep=2 holds 2, and 2 of 4 processes have the same. Tokens go there and home, forward and
// backward; experts are summed and cut among those that share them.
TEST(Plan, expert_parallel_sends_tokens_there_and_home) {
  auto model = planned_model({});
  const double expert = 32 * 8;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t k = 0; k < 4; ++k)
      model.tensors.push_back({base::format("layers.{}.experts.{}.weight", i, k), {32, 8}, i});
  model.cuts.push_back({"layers.#.experts.#.weight", {CutKind::column}, 4});
  model.experts = {.experts = 4, .choices = 2};
  const auto plan_of = [&](int64_t zero, double capacity) {
    model.experts.capacity = capacity;
    auto plan = make_plan(model, {.layout = parse_layout("dp=4,ep=2"), .samples = 2, .length = 8, .zero = zero});
    EXPECT_NO_THROW(check(plan));
    return plan;
  };
  const double others = 4 * kBlock + 32 + 2 * 100 * 32;
  for (const int64_t zero : {0, 1, 2, 3}) {
    const auto plan = plan_of(zero, 0);
    EXPECT_EQ(plan.parameters[0], others + 4 * 2 * expert);
    EXPECT_EQ(plan.expert_parameters[0], 4 * 2 * expert);
    EXPECT_DOUBLE_EQ(sent(plan, 0, "ep", Payload::tokens), 4 * 2 * (2 * 8 * 2 * 32 * 4) / 2);
    EXPECT_DOUBLE_EQ(sent(plan, 0, "ep", Payload::token_gradients), 4 * 2 * (2 * 8 * 2 * 32 * 4) / 2);
    EXPECT_DOUBLE_EQ(sent(plan, 0, "dp of experts", Payload::gradients), (zero == 0 ? 2 : 1) * 4 * 2 * expert * 4 / 2);
    const RankMemory memory = memory_of(plan, {.layout = plan.layout, .zero = zero}, model, {}, 8, 0);
    EXPECT_DOUBLE_EQ(memory.optimizer, zero == 0 ? 8 * (others + 8 * expert) : 8 * (others / 4 + 8 * expert / 2));
    EXPECT_DOUBLE_EQ(memory.weights, zero < 3 ? 4 * (others + 8 * expert) : 4 * (others / 4 + 8 * expert / 2));
  }
  // ceil(1.5 * 16 tokens * 2 / 4) = 12 rows an expert, taken or not.
  EXPECT_DOUBLE_EQ(sent(plan_of(0, 1.5), 0, "ep", Payload::tokens), 4 * 2 * (4 * 12 * 32 * 4) / 2);
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
  EXPECT_NE(refused(planned_model({}), {.layout = parse_layout("dp=2,ep=2")}).find("this model has none / use dp=2"),
            std::string::npos);
  auto mixture = planned_model({});
  mixture.cuts.push_back({"layers.#.experts.#.weight", {CutKind::column}, 6});
  for (const auto& [layout, instead] :
       std::vector<std::pair<const char*, const char*>>{{"ep=2", "use dp=2,ep=2"},
                                                        {"dp=4,ep=3", "use dp=4,ep=2"},
                                                        {"dp=4,ep=4", "use dp=4,ep=2"},
                                                        {"dp=2x2,ep=2", "use dp=4,ep=2"}})
    EXPECT_NE(refused(mixture, {.layout = parse_layout(layout)}).find(instead), std::string::npos) << layout;
  EXPECT_NE(refused(planned_model({}), {.layout = parse_layout("tp=2"), .length = 3, .sequence_parallel = true})
                .find("tp divides"),
            std::string::npos);
}

// A clock in place of computing: stages that take as long, messages a hundredth of a forward, a backward twice a
// forward, and each half of one as long as a forward.
TEST(PlanWalk, bubbles_are_those_of_theory) {
  auto model = planned_model({.blocks = 8});
  model.costs.last = 0;
  for (const auto schedule : {PipelineSchedule::one_forward_one_backward, PipelineSchedule::interleaved,
                              PipelineSchedule::zb_h1, PipelineSchedule::zb_v, PipelineSchedule::dualpipe_v})
    for (const int64_t count : {8, 12, 16})
      for (const double latency : {0.0, 0.01}) {
        const PlannedStep step{.layout = parse_layout("pp=4"),
                               .schedule = schedule,
                               .chunks = usual_chunks(schedule),
                               .micro_batches = count};
        const auto plan = make_plan(model, step);
        const auto walked = walk(plan, [&](int, const Instruction& instruction) {
          const double forward = 1 / static_cast<double>(step.chunks);
          return instruction.does == Does::backward ? 2 * forward
                 : computes(instruction.does)       ? forward
                 : instruction.does == Does::send   ? latency
                                                    : 0;
        });
        ASSERT_FALSE(walked.defect);
        EXPECT_NEAR(walked.bubble(plan), bubble_of(plan.pipeline), latency == 0 ? 1e-9 : 0.03)
            << base::word_of(schedule) << " " << count;
        std::printf("%-11s p 4, m %2d, messages %.2f: bubble %.1f%%, theory %.1f%%\n", base::word_of(schedule),
                    static_cast<int>(count), latency, 100 * walked.bubble(plan), 100 * bubble_of(plan.pipeline));
      }
}

// The order of a rank's list, and that nothing begins before what it waits for.
TEST(PlanWalk, times_follow_the_lists_and_the_messages) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const auto [model, step] = random_plan(random);
    const auto plan = make_plan(model, step);
    const auto walked = walk(plan, [](int rank, const Instruction& i) {
      return i.does == Does::forward ? 1.0 + 0.1 * rank : computes(i.does) ? 2.5 : 0.05;
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

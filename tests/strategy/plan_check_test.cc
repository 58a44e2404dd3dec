#include "hyperion/strategy/plan_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "hyperion/base/error.h"
#include "tests/strategy/support_plans.h"

namespace hyperion::strategy {
namespace {

TEST(PlanCheck, passes_a_thousand_random_layouts) {
  std::mt19937 random(1);
  std::set<std::string> layouts;
  std::set<PipelineSchedule> schedules;
  int all_five = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const auto [model, step] = random_plan(random);
    const auto plan = make_plan(model, step);
    const auto defect = find_defect(plan);
    ASSERT_FALSE(defect) << step.layout.text() << " zero " << step.zero << ": rank " << defect->rank << ", "
                         << defect->instruction << ": " << defect->what;
    layouts.insert(step.layout.text());
    if (step.layout.pp > 1) schedules.insert(step.schedule);
    const auto& at = step.layout;
    all_five += at.pp > 1 && at.dp() > 1 && at.cp > 1 && at.tp > 1 && at.ep > 1 ? 1 : 0;
  }
  EXPECT_GT(all_five, 10);
  EXPECT_EQ(schedules.size(), words_of(PipelineSchedule{}).size());
  EXPECT_GT(layouts.size(), 200u);
}

using Places = std::vector<std::pair<size_t, size_t>>;  // rank, instruction

struct Damage {
  const char* name;
  std::function<bool(const Plan&, const Instruction&)> fits;
  std::function<bool(Plan&, size_t rank, size_t at)> damage;  // false: there is nothing of it to damage here
};

bool is_message(const Instruction& instruction) {
  return instruction.does == Does::send || instruction.does == Does::receive;
}
bool is_work(const Instruction& instruction) { return computes(instruction.does); }
bool travels(const Instruction& instruction) { return is_message(instruction) || is_collective(instruction.does); }

void drop(Plan& plan, size_t rank, size_t at) {
  plan.ranks[rank].erase(plan.ranks[rank].begin() + static_cast<std::ptrdiff_t>(at));
}

// With the next one of the rank's list that is another of the same kind and in the same company.
bool swap_with_next(Plan& plan, size_t rank, size_t at) {
  auto& list = plan.ranks[rank];
  for (size_t other = at + 1; other < list.size(); ++other) {
    const bool company =
        list[other].does == list[at].does && list[other].peer == list[at].peer && list[other].group == list[at].group;
    if (!company || list[other] == list[at]) continue;
    std::swap(list[at], list[other]);
    return true;
  }
  return false;
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"dropped receive", [](const Plan&, const auto& i) { return i.does == Does::receive; },
       [](Plan& plan, size_t rank, size_t at) { return drop(plan, rank, at), true; }},
      {"dropped send", [](const Plan&, const auto& i) { return i.does == Does::send; },
       [](Plan& plan, size_t rank, size_t at) { return drop(plan, rank, at), true; }},
      {"dropped collective", [](const Plan&, const auto& i) { return is_collective(i.does); },
       [](Plan& plan, size_t rank, size_t at) { return drop(plan, rank, at), true; }},
      {"dropped work", [](const Plan&, const auto& i) { return is_work(i) || i.does == Does::update; },
       [](Plan& plan, size_t rank, size_t at) { return drop(plan, rank, at), true; }},
      {"swapped order", [](const Plan&, const auto& i) { return travels(i); }, swap_with_next},
      {"work too early", [](const Plan&, const auto& i) { return is_work(i); },
       [](Plan& plan, size_t rank, size_t at) {
         auto& list = plan.ranks[rank];
         const bool needs = at > 0 && list[at - 1].does == Does::receive;
         if (needs) std::swap(list[at - 1], list[at]);
         return needs;
       }},
      {"wrong group", [](const Plan& plan, const auto& i) { return is_collective(i.does) && plan.groups.size() > 1; },
       [](Plan& plan, size_t rank, size_t at) {
         auto& group = plan.ranks[rank][at].group;
         group = (group + 1) % static_cast<int>(plan.groups.size());
         return true;
       }},
      {"wrong shape", [](const Plan&, const auto& i) { return travels(i); },
       [](Plan& plan, size_t rank, size_t at) { return ++plan.ranks[rank][at].shape.back(), true; }},
      {"wrong type", [](const Plan&, const auto& i) { return travels(i); },
       [](Plan& plan, size_t rank, size_t at) { return plan.ranks[rank][at].element *= 2, true; }},
      {"wrong peer", [](const Plan&, const auto& i) { return is_message(i); },
       [](Plan& plan, size_t rank, size_t at) {
         auto& peer = plan.ranks[rank][at].peer;
         peer = (peer + 1) % static_cast<int>(plan.ranks.size());
         return true;
       }},
      {"wrong micro-batch", [](const Plan&, const auto& i) { return i.micro_batch >= 0; },
       [](Plan& plan, size_t rank, size_t at) { return ++plan.ranks[rank][at].micro_batch, true; }},
      {"gradients of weights before those of inputs",
       [](const Plan&, const auto& i) { return i.does == Does::backward_weights; },
       [](Plan& plan, size_t rank, size_t at) {
         auto& list = plan.ranks[rank];
         const auto early = list[at];
         const auto of_inputs = std::find_if(list.begin(), list.end(), [&](const auto& i) {
           return i.does == Does::backward_input && i.stage == early.stage && i.micro_batch == early.micro_batch;
         });
         drop(plan, rank, at);
         return list.insert(of_inputs, early), true;
       }},
      {"done twice", [](const Plan&, const auto&) { return true; },
       [](Plan& plan, size_t rank, size_t at) {
         auto& list = plan.ranks[rank];
         const auto again = list[at];
         list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), again);
         return true;
       }},
      {"more kept than promised", [](const Plan&, const auto& i) { return i.does == Does::forward; },
       [](Plan& plan, size_t rank, size_t) { return --plan.kept[rank], true; }},
  };
  return all;
}

// Each kind of damage in turn, at a place drawn at random, until 300 were done.
TEST(PlanCheck, finds_every_seeded_defect_without_running) {
  std::mt19937 random(2);
  std::map<std::string, int> found;
  std::set<PipelineSchedule> damaged;
  std::map<std::string, int> axes;  // of the groups whose collectives were damaged
  for (int trial = 0; trial < 300;) {
    const auto [model, step] = random_plan(random);
    auto plan = make_plan(model, step);
    const auto& [name, fits, damage] = damages()[static_cast<size_t>(trial) % damages().size()];
    Places places;
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
      for (size_t at = 0; at < plan.ranks[rank].size(); ++at)
        if (fits(plan, plan.ranks[rank][at])) places.push_back({rank, at});
    if (places.empty()) continue;
    const auto [rank, at] = places[random() % places.size()];
    const auto whole = plan.ranks[rank][at];
    if (!damage(plan, rank, at)) continue;
    if (is_collective(whole.does)) ++axes[plan.groups[static_cast<size_t>(whole.group)].name];
    damaged.insert(step.schedule);
    const auto defect = find_defect(plan);
    ASSERT_TRUE(defect) << name << " of " << step.layout.text() << ", rank " << rank << ", instruction " << at;
    EXPECT_FALSE(defect->what.empty());
    EXPECT_THROW(check(plan), base::ConfigError);
    ++found[name], ++trial;
  }
  EXPECT_EQ(found.size(), damages().size());
  EXPECT_EQ(damaged.size(), words_of(PipelineSchedule{}).size());
  for (const char* axis : {"dp", "cp", "tp", "ep"}) EXPECT_GT(axes[axis], 0) << axis;
}

TEST(PlanCheck, names_rank_and_instruction) {
  auto plan = make_plan(planned_model({}), {.layout = parse_layout("pp=2,tp=2"), .micro_batches = 2});
  auto& list = plan.ranks[3];
  const auto receive = std::find_if(list.begin(), list.end(), [](const auto& i) { return i.does == Does::receive; });
  receive->shape[0] = 5;
  try {
    check(plan);
    FAIL();
  } catch (const base::ConfigError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "this plan of pp=2,tp=2 cannot be carried out: rank 3, instruction 0 (receive hidden states 5x1x32, stage "
        "1, micro-batch 0, from rank 1): rank 1 sends something else: its instruction 6, send hidden states "
        "1x1x32, stage 0, micro-batch 0, to rank 3");
  }
}

}  // namespace
}  // namespace hyperion::strategy

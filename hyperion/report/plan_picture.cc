#include "hyperion/report/plan_picture.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/report/timeline.h"

namespace hyperion::report {
namespace {

using base::format;
using strategy::Does;

constexpr int64_t kMostDigits = 10;

std::vector<int> first_of_each_stage(const strategy::Plan& plan) {
  return strategy::Mesh(plan.layout, 0).peers(strategy::Axis::pp);
}

// use(instruction, when) for whatever a rank computes.
template <class Use>
void each_work(const strategy::Plan& plan, const strategy::PlanWalk& walk, int rank, const Use& use) {
  const auto& list = plan.ranks[static_cast<size_t>(rank)];
  for (size_t i = 0; i < list.size(); ++i)
    if (strategy::computes(list[i].does)) use(list[i], walk.times[static_cast<size_t>(rank)][i]);
}

// Of a rank's first stage; the next one is that of its others.
int color_of(Does does) { return does == Does::forward ? 0 : does == Does::backward_weights ? 4 : 2; }

char letter_of(Does does) { return does == Does::forward ? '0' : does == Does::backward_weights ? 'A' : 'a'; }

// `name(rank)`: of a row.
template <class Name>
std::vector<TimelineRow> rows_of(const strategy::Plan& plan, const strategy::PlanWalk& walk, const Name& name) {
  std::vector<TimelineRow> rows;
  for (const int rank : first_of_each_stage(plan)) {
    TimelineRow row{name(rank), {}};
    each_work(plan, walk, rank, [&](const strategy::Instruction& work, const strategy::TimedInstruction& when) {
      const int later = work.stage >= plan.pipeline.ranks ? 1 : 0;  // than the rank's first stage
      row.boxes.push_back(
          {when.begin, when.end, color_of(work.does) + later, format("{}", work.micro_batch),
           format("{} of micro-batch {}, stage {}", base::word_of(work.does), work.micro_batch, work.stage)});
    });
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<TimelineKind> legend_of(const strategy::Plan& plan) {
  std::vector<TimelineKind> legend;
  const auto add = [&](const char* name, int color) {
    legend.push_back({name, color});
    if (plan.pipeline.chunks > 1) legend.push_back({"of a later stage", color + 1});
  };
  add("forward", color_of(Does::forward)), add("backward", color_of(Does::backward));
  if (strategy::splits_backward(plan.pipeline.schedule)) add("of weights", color_of(Does::backward_weights));
  return legend;
}

}  // namespace

std::string plan_svg(const std::string& title, const strategy::Plan& plan, const strategy::PlanWalk& walk) {
  return timeline_svg(title, rows_of(plan, walk, [](int rank) { return format("rank {}", rank); }), legend_of(plan));
}

std::string pipeline_svg(const std::string& title, const strategy::Plan& plan, const strategy::PlanWalk& planned,
                         const strategy::PlanWalk& ran, const std::vector<int>& ranks) {
  const auto name = [&](const char* which) {
    return [&ranks, which](int rank) { return format("rank {}, {}", ranks.at(static_cast<size_t>(rank)), which); };
  };
  auto rows = rows_of(plan, planned, name("planned"));
  rows.push_back({"", {}});
  for (auto& row : rows_of(plan, ran, name("as it ran"))) rows.push_back(std::move(row));
  return timeline_svg(title, rows, legend_of(plan));
}

std::string plan_letters(const strategy::Plan& plan, const strategy::PlanWalk& walk, double unit, size_t most) {
  const auto columns = static_cast<size_t>(std::llround(walk.end / unit));
  if (columns > most || plan.pipeline.micro_batches > kMostDigits) return {};
  std::string out;
  for (const int rank : first_of_each_stage(plan)) {
    std::string row(columns, '.');
    each_work(plan, walk, rank, [&](const strategy::Instruction& work, const strategy::TimedInstruction& when) {
      const char letter = static_cast<char>(letter_of(work.does) + work.micro_batch);
      const auto begin = static_cast<size_t>(std::llround(when.begin / unit)),
                 end = std::min(columns, static_cast<size_t>(std::llround(when.end / unit)));
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)),
                row.begin() + static_cast<std::ptrdiff_t>(end), letter);
    });
    out += format("rank {:<4} {}\n", rank, row);
  }
  return out;
}

}  // namespace hyperion::report

#include "hyperion/train/pipeline_record.h"

#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/report/plan_picture.h"
#include "hyperion/report/stage_times.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {

std::string draw_pipeline(base::FileSystem& files, const base::Path& picture, parallel::Processes& processes,
                          const Stepper& stepper) {
  const auto times = stepper.stage_times();
  if (times.step == 0) return {};
  const auto told = processes.control().gather_text(report::to_json(times.work), "times of stages");
  if (!processes.first()) return {};
  const auto ranks = processes.mesh().peers(strategy::Axis::pp);
  std::vector<std::string> of_stages;
  for (const int rank : ranks) of_stages.push_back(told[static_cast<size_t>(rank)]);
  const auto plan = stepper.stages().plan(times.parts);
  const auto ran = report::read_walk(plan, of_stages), planned = strategy::ideal_walk(plan, ran);
  const auto text = base::format("step {}: bubble {:.1f}% as it ran, {:.1f}% planned", times.step,
                                 100 * ran.bubble(plan), 100 * planned.bubble(plan));
  base::write_atomically(files, picture,
                         report::pipeline_svg(base::format("{}, {}", base::word_of(plan.pipeline.schedule), text), plan,
                                              planned, ran, ranks));
  return text;
}

}  // namespace hyperion::train

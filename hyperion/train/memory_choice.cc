#include "hyperion/train/memory_choice.h"

#include <limits>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/profile/memory.h"

namespace hyperion::train {
namespace {

using base::format;

std::string bytes_shown(int64_t bytes) { return base::bytes_text(static_cast<uint64_t>(bytes)); }

// Nothing where it does not even fit into the device's memory.
std::optional<MemoryReport> tried(Stepper& stepper, const Batch& batch, const MemoryConfig& memory) {
  try {
    return stepper.measure(batch, memory);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    profile::release_cached_memory(true);
    return std::nullopt;
  }
}

}  // namespace

MemoryChoice choose_memory(Stepper& stepper, const Batch& batch, const MemoryConfig& memory) {
  const int64_t budget = bytes_of(memory.budget);
  int64_t least = std::numeric_limits<int64_t>::max();
  std::string passed_over;
  for (const auto& choice : choices(memory)) {
    const auto report = tried(stepper, batch, choice);
    const std::string name = technique_text(choice);
    if (report && report->peak() <= budget)
      return {choice, *report,
              format("memory budget {}: chose {}, which takes {}{}{}", bytes_shown(budget), name,
                     bytes_shown(report->peak()), passed_over.empty() ? "" : " after trying ", passed_over)};
    if (report) least = std::min(least, report->peak());
    passed_over +=
        format("{}{} ({})", passed_over.empty() ? "" : ", ", name, report ? bytes_shown(report->peak()) : "none left");
  }
  throw base::PreflightError(format("no memory technique fits memory.budget = \"{}\"{}", memory.budget,
                                    least == std::numeric_limits<int64_t>::max()
                                        ? ""
                                        : format(": the least that one takes is {}", bytes_shown(least))),
                             "use a larger train.accumulate, a shorter train.length or a smaller model");
}

}  // namespace hyperion::train

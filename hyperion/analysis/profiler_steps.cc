#include "hyperion/analysis/profiler_steps.h"

#include <algorithm>
#include <charconv>

namespace hyperion::analysis {

std::vector<ProfilerStep> profiler_steps(const trace::Trace& trace) {
  constexpr std::string_view kWord = "ProfilerStep#";
  std::vector<int64_t> numbers(trace.names.size(), trace::kNone);
  for (uint32_t id = 0; id < numbers.size(); ++id) {
    const auto name = trace.names[id];
    if (name.starts_with(kWord)) std::from_chars(name.data() + kWord.size(), name.data() + name.size(), numbers[id]);
  }
  std::vector<ProfilerStep> steps;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.category(i) != trace::Category::user_annotation || trace.name[i] == trace::kNoString) continue;
    if (trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime || numbers[trace.name[i]] == trace::kNone) continue;
    steps.push_back({trace.begin[i], trace.end(i), numbers[trace.name[i]]});
  }
  std::sort(steps.begin(), steps.end(), [](const ProfilerStep& a, const ProfilerStep& b) { return a.begin < b.begin; });
  return steps;
}

int64_t step_at(const std::vector<ProfilerStep>& steps, int64_t time) {
  const auto after = std::upper_bound(steps.begin(), steps.end(), time,
                                      [](int64_t at, const ProfilerStep& step) { return at < step.begin; });
  return after == steps.begin() ? trace::kNone : after[-1].number;
}

}  // namespace hyperion::analysis

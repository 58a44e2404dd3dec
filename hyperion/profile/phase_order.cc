#include "hyperion/profile/phase_order.h"

#include <algorithm>
#include <cctype>

namespace hyperion::profile {
namespace {

enum class Role { other, loss, optimizer };

Role role_of(std::string name, const PhaseWords& words) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const auto has = [&](const std::string& word) { return name.find(word) != name.npos; };
  if (std::any_of(words.optimizer.begin(), words.optimizer.end(), has)) return Role::optimizer;
  if (!has("backward") && std::any_of(words.loss.begin(), words.loss.end(), has)) return Role::loss;
  return Role::other;
}

struct Step {
  int64_t begin, loss_end, optimizer_begin, end;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::optional<PhaseTimes> phases_by_order(const std::vector<TracedSpan>& spans, int64_t steps,
                                          const PhaseWords& words) {
  if (spans.empty() || steps <= 0) return {};
  std::vector<Step> found;
  bool updating = false;
  Step step{spans.front().begin, 0, 0, 0};
  for (const auto& span : spans) {
    const Role role = role_of(span.name, words);
    if (role == Role::loss && updating) {
      found.push_back(step);
      step = {step.end, 0, 0, 0};
      updating = false;
    }
    if (role == Role::loss) step.loss_end = span.end;
    if (role == Role::optimizer && step.loss_end == 0) continue;  // before any loss: left from an earlier step
    if (role == Role::optimizer) {
      if (!updating) step.optimizer_begin = span.begin;
      updating = true;
      step.end = std::max(step.end, span.end);
    }
  }
  if (updating) found.push_back(step);
  if (static_cast<int64_t>(found.size()) != steps) return {};
  std::array<std::vector<double>, 3> times;
  for (const auto& one : found) {
    times[0].push_back(static_cast<double>(one.loss_end - one.begin) / 1e6);
    times[1].push_back(static_cast<double>(one.optimizer_begin - one.loss_end) / 1e6);
    times[2].push_back(static_cast<double>(one.end - one.optimizer_begin) / 1e6);
  }
  PhaseTimes phases{};
  phases[static_cast<size_t>(Phase::forward)] = median(times[0]);
  phases[static_cast<size_t>(Phase::backward)] = median(times[1]);
  phases[static_cast<size_t>(Phase::optimizer)] = median(times[2]);
  return phases;
}

}  // namespace hyperion::profile

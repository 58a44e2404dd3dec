#include "hyperion/analysis/stragglers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

// Microseconds a step.
struct Pace {
  double compute, communication, idle, span;
};

Pace pace_of(const RankAnalysis& rank) {
  const double unit = 1000.0 * static_cast<double>(std::max<int64_t>(rank.steps, 1));
  const auto part = [&](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / unit; };
  return {part(rank.times.compute), part(rank.times.communication), part(rank.times.idle), part(rank.times.total)};
}

double median_without(const std::vector<Pace>& paces, size_t left_out, double Pace::*field) {
  std::vector<double> values;
  for (size_t i = 0; i < paces.size(); ++i)
    if (i != left_out) values.push_back(paces[i].*field);
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::optional<Straggler> find_straggler(const std::vector<RankAnalysis>& ranks, double percent) {
  std::vector<Pace> paces;
  for (const auto& rank : ranks) {
    if (rank.times.communication == 0) return std::nullopt;
    paces.push_back(pace_of(rank));
  }
  if (paces.size() < 2) return std::nullopt;
  const auto least = std::min_element(paces.begin(), paces.end(),
                                      [](const Pace& a, const Pace& b) { return a.communication < b.communication; });
  const auto at = static_cast<size_t>(least - paces.begin());
  Straggler found;
  found.rank = ranks[at].rank;
  found.waited = median_without(paces, at, &Pace::communication) - least->communication;
  found.percent = least->span > 0 ? 100 * found.waited / least->span : 0;
  if (found.percent < percent) return std::nullopt;
  const double compute = least->compute - median_without(paces, at, &Pace::compute);
  const double idle = least->idle - median_without(paces, at, &Pace::idle);
  found.more = std::max(compute, idle);
  if (found.more >= found.waited / 2) found.because = compute >= idle ? Lateness::compute : Lateness::idle;
  return found;
}

std::string straggler_text(const Straggler& straggler) {
  auto text =
      base::format("rank {} is waited for: the others are {:.3f} ms a step longer in communication ({:.1f}% of a step)",
                   straggler.rank, straggler.waited / 1e3, straggler.percent);
  if (straggler.because == Lateness::compute)
    text += base::format("; it computes {:.3f} ms longer", straggler.more / 1e3);
  if (straggler.because == Lateness::idle)
    text +=
        base::format("; nothing runs on it for {:.3f} ms longer: look at its host and its input", straggler.more / 1e3);
  return text;
}

base::Json straggler_json(const std::optional<Straggler>& straggler) {
  if (!straggler) return nullptr;
  static constexpr const char* kWords[] = {"compute", "idle", "unknown"};
  return {{"rank", straggler->rank},
          {"waited_us", straggler->waited},
          {"percent", straggler->percent},
          {"because", kWords[static_cast<size_t>(straggler->because)]},
          {"more_us", straggler->more}};
}

}  // namespace hyperion::analysis

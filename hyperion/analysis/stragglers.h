// Which rank the others wait for.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/json.h"

namespace hyperion::analysis {

enum class Lateness : uint8_t {
  compute,  // its kernels take longer
  idle,     // nothing runs on it for longer: its host, its input
  unknown,
};

struct Straggler {
  int64_t rank = 0;
  double waited = 0;   // microseconds a step that the others (their median) spend in communication beyond what it does
  double percent = 0;  // of a step
  Lateness because = Lateness::unknown;
  double more = 0;  // microseconds a step by which its compute or idle time exceeds the others' median
};

// A collective ends on all ranks when the last has come: who spends the least time in communication came last. None
// where there are fewer than two ranks with communication, or where the others wait for less than `percent` of a step.
std::optional<Straggler> find_straggler(const std::vector<RankAnalysis>& ranks, double percent = 2);
std::string straggler_text(const Straggler& straggler);
base::Json straggler_json(const std::optional<Straggler>& straggler);

}  // namespace hyperion::analysis

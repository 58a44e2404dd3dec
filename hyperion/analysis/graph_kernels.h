// What the kernels of a replayed graph are for. A replay says of its kernels only that it launched them; they are those
// of the step that ran one operation at a time before it was recorded, in its order, and take their phase, layer and
// operation from there.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

class GraphKernels {
 public:
  // Of a trace of such a step, with the program's spans. One for each shape that is recorded.
  void learn(trace::Trace&& step);
  bool empty() const { return patterns_.empty(); }

  // The same trace, where kernels, copies and fills of replays say what they are for. A replay that is like none of the
  // steps stays as it is: fewer than three in four of its kernels are theirs.
  trace::Trace tell(trace::Trace&& trace) const;

 private:
  struct Kernel {
    std::string name, phase, layer, operation;
  };
  using Pattern = std::vector<Kernel>;
  using Order = std::vector<uint32_t>;  // of a replay's kernels, as events of the trace
  std::vector<const Kernel*> meaning_of(const trace::Trace& trace, const Order& replay) const;

  std::vector<Pattern> patterns_;
};

// Of two sequences, given as numbers: for each of `other` the place in `known` that it stands at. Those that are alike
// in the order of both are matched, with the fewest left over; what lies between two of these is laid beside what lies
// between them in `known`. `alike` counts the matched ones. Empty where the two differ in more than `most` places.
struct Alignment {
  std::vector<uint32_t> places;  // kNoString: there is nothing to lay it beside
  size_t alike = 0;
};
Alignment align(const std::vector<uint32_t>& known, const std::vector<uint32_t>& other, size_t most = 1000);

}  // namespace hyperion::analysis

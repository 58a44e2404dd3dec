// Brings the pieces of all ranks together to whole weights: after each update, or block by block as a pass needs them.
#pragma once
#include <functional>
#include <memory>

#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"
#include "hyperion/parallel/flat_weights.h"

namespace hyperion::parallel {

// Of weights that lie apart, and are never gathered.
class WeightGatherer {
 public:
  virtual ~WeightGatherer() = default;
  // Around each forward; the end only where no backward follows.
  virtual void begin_pass() {}
  virtual void end_pass() {}
  virtual void updated() {}  // the pieces were changed
  virtual void settle() {}   // what that has sent is there
  // All weights are whole from one to the other; may be nested.
  virtual void hold() {}
  virtual void let_go() {}
  virtual nn::BlockHook* block_hook() { return nullptr; }  // set where blocks' weights come and go
};

struct GatherOptions {
  int64_t prefetch = 1;  // blocks
  // ZeRO++: gathered in 8 bits; a second copy, cut among these ranks, serves every gather of a step but the first.
  bool quantized = false;
  comm::Group* secondary = nullptr;
};

// `left(unit)` is called when the backward of a block is over, before its weights go.
std::unique_ptr<WeightGatherer> make_gatherer(FlatWeights& weights, comm::Group& group, const GatherOptions& options,
                                              std::function<void(int unit)> left);

}  // namespace hyperion::parallel

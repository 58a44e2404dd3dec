// Which micro-batch a step runs forward or backward when: a list that the step works through, and knows no other order.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace hyperion::train {

struct Instruction {
  enum class Work { forward, backward };
  Work work;
  int64_t micro_batch;  // from 0
};

// For a step of so many micro-batches: each forward once, and backward once at some time after it. Gradients are added
// up in the order of the backwards; parallel.same_bits wants them in that of the micro-batches.
using Schedule = std::function<std::vector<Instruction>(int64_t count)>;

// Backward as soon as forward: no other micro-batch's activations are kept meanwhile.
std::vector<Instruction> in_order(int64_t count);
// All forward, then all backward, the last first (GPipe; Huang et al., 2019): the activations of all are kept at once.
std::vector<Instruction> forwards_first(int64_t count);

// The schedule's list, once it is seen to be one.
std::vector<Instruction> instructions_of(const Schedule& schedule, int64_t count);

}  // namespace hyperion::train

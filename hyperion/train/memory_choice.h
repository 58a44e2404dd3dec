// The cheapest memory techniques that fit a budget, found by trying them.
#pragma once
#include "hyperion/train/stepper.h"

namespace hyperion::train {

struct MemoryChoice {
  MemoryConfig config;
  MemoryReport report;
  std::string said;  // what was chosen, and what it was chosen over
};

// Tries each of choices(memory) on a part of the batch until one stays within memory.budget, and leaves the stepper
// with it. Throws PreflightError with the least that any takes where none does.
MemoryChoice choose_memory(Stepper& stepper, const Batch& batch, const MemoryConfig& memory);

}  // namespace hyperion::train

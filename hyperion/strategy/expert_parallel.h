// Expert parallelism: of the processes that share the batch and the sequence `ep` that follow each other share out the
// experts of every mixture, and send each other the tokens for them. Whether a model can be cut so, and how many rows
// travel: plain numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/strategy/cut.h"
#include "hyperion/strategy/layout.h"

namespace hyperion::strategy {

// How a model's tokens use its experts.
struct ExpertUse {
  int64_t experts = 0, choices = 0;  // in a sparse layer, and of each token; none: it has no such layer
  double capacity = 0;               // the factor of what an expert takes in training; 0: all that come
};

// Rows that an expert takes of a process's tokens, from 1 to all of them; 0: all that come.
int64_t expert_capacity(const ExpertUse& use, int64_t tokens);
// Rows that a process's tokens make for all experts together: those that fill up a capacity count.
int64_t expert_rows(const ExpertUse& use, int64_t tokens);

// Throw ConfigError where the layout's ep is impossible for its processes, or for a model that is cut so, with the
// reason and the nearest that would do.
void check_expert_processes(const Layout& layout);
void check_experts(const Layout& layout, const std::vector<CutRule>& rules);

}  // namespace hyperion::strategy

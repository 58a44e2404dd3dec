// `--parallel auto`: how a number of processes is laid out where nobody says, by rules.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/strategy/layout.h"

namespace hyperion::strategy {

// What of a model and its samples the rules go by.
struct LayoutHints {
  int64_t tokens = 0;   // of a sample; 0: images
  int64_t experts = 0;  // of a sparse layer; 0: there is none
};

// The best first, and dp alone last; whether a model can be laid out so is for the caller to find. Two stages and two
// shards come first, which divide what each process holds and send the least for it; then what shares the batch. Of
// mixtures the experts are shared out among as many of these as can be, up to eight; and from sixteen processes on two
// share the tokens of long samples. More stages and shards come only where the batch is too small for the others.
std::vector<Layout> automatic_layouts(int64_t processes, const LayoutHints& hints);

}  // namespace hyperion::strategy

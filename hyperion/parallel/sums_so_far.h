// What the backwards of a step have added up, between two of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace hyperion::parallel {

struct SumsSoFar {
  std::vector<at::Tensor> sums;
  std::vector<std::vector<char>> filled;  // which places of a sum have a gradient; empty: all
};

}  // namespace hyperion::parallel

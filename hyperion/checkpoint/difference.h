// What differs between the tensors of two checkpoints or files.
#pragma once
#include "hyperion/checkpoint/tensor_set.h"

namespace hyperion::checkpoint {

struct TensorDifference {
  std::string name = {};      // without what checkpoints set before it
  std::string mismatch = {};  // "only in A", "[2, 3] here, [3, 2] there"; empty: the values differ
  int64_t elements = 0;       // that differ, of so many:
  int64_t of = 0;
  double largest = 0;   // of the differences
  double relative = 0;  // the norm of the differences over that of the first
};

// By name; nothing where all bits are the same. Types are compared by their values, and named where they differ.
std::vector<TensorDifference> differences(const TensorSet& first, const TensorSet& second);

std::string shape_words(const std::vector<int64_t>& shape);  // "[2, 3]"
std::string type_words(at::ScalarType type);                 // "BF16", as safetensors has it

}  // namespace hyperion::checkpoint

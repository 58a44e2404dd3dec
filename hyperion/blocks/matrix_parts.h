// A matrix put together of others in one pass: where they lie apart, or have to lie beside something else.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace hyperion::blocks {

struct MatrixPart {
  at::Tensor from;  // [rows, columns] of the matrix's type
  int64_t row = 0, column = 0;
};

// At most kMostParts, none over another; what no part covers becomes 0. The rows of `out` may be parts of wider ones.
constexpr size_t kMostParts = 8;
void put_together(const at::Tensor& out, const std::vector<MatrixPart>& parts);

}  // namespace hyperion::blocks

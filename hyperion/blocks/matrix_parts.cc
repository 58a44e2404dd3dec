#include "hyperion/blocks/matrix_parts.h"

#include <iterator>

#include "hyperion/base/error.h"
#include "hyperion/blocks/matrix_parts_math.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::blocks {
namespace {

static_assert(std::size(RawMatrixParts{}.parts) == kMostParts);

bool fits(const at::Tensor& out, const MatrixPart& part) {
  return part.from.dim() == 2 && part.from.scalar_type() == out.scalar_type() && part.row >= 0 && part.column >= 0 &&
         part.row + part.from.size(0) <= out.size(0) && part.column + part.from.size(1) <= out.size(1);
}

}  // namespace

void put_together(const at::Tensor& out, const std::vector<MatrixPart>& parts) {
  HYPERION_CHECK(parts.size() <= kMostParts, "a matrix of a few parts");
  for (const auto& part : parts) HYPERION_CHECK(fits(out, part), "parts lie within their matrix");
  const auto element = static_cast<int>(out.element_size());
  if (!out.is_cuda() || out.stride(1) != 1 || (element != 2 && element != 4) || out.numel() >> 32 != 0) {
    out.zero_();
    for (const auto& part : parts)
      out.narrow(0, part.row, part.from.size(0)).narrow(1, part.column, part.from.size(1)).copy_(part.from);
    return;
  }
  RawMatrixParts matrix{out.data_ptr(), out.size(0), out.size(1), out.stride(0), element, 0, {}};
  std::vector<at::Tensor> held;  // until the kernel is queued
  for (const auto& part : parts) {
    const auto from = part.from.stride(1) == 1 ? part.from : part.from.contiguous();
    matrix.parts[matrix.count++] = {from.const_data_ptr(), part.row,     part.column,
                                    from.size(0),          from.size(1), from.stride(0)};
    held.push_back(from);
  }
  kernels::on_gpu([&] { put_together_gpu(matrix, kernels::stream_of(out)); });
}

}  // namespace hyperion::blocks

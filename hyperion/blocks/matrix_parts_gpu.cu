#include "hyperion/blocks/matrix_parts_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::blocks {
namespace {

using namespace device;  // of gpu_runtime.h
using kernels::Words;

constexpr int kThreads = 256;

// Piece: 16 bytes, or an element. Everything of the matrix is counted in pieces.
template <class Piece>
__global__ void __launch_bounds__(kThreads) put_together_kernel(RawMatrixParts matrix) {
  const int64_t all = matrix.rows * matrix.columns;
  const auto columns = static_cast<uint32_t>(matrix.columns);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < all; i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = static_cast<uint32_t>(i) / columns, column = static_cast<uint32_t>(i) % columns;
    Piece piece{};
    for (int k = 0; k < matrix.count; ++k) {
      const auto& part = matrix.parts[k];
      const int64_t y = row - part.row, x = column - part.column;
      if (y >= 0 && y < part.rows && x >= 0 && x < part.columns)
        piece = static_cast<const Piece*>(part.from)[y * part.pitch + x];
    }
    static_cast<Piece*>(matrix.out)[row * matrix.pitch + column] = piece;
  }
}

bool in_pieces(const RawMatrixParts& matrix, int64_t each) {
  const auto whole = [each](int64_t count) { return count % each == 0; };
  const auto aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(Words) == 0; };
  bool all = aligned(matrix.out) && whole(matrix.columns) && whole(matrix.pitch);
  for (int k = 0; k < matrix.count; ++k) {
    const auto& part = matrix.parts[k];
    all = all && aligned(part.from) && whole(part.column) && whole(part.columns) && whole(part.pitch);
  }
  return all;
}

template <class Piece>
void launch_parts(const RawMatrixParts& matrix, GpuStream stream) {
  const int64_t all = matrix.rows * matrix.columns, blocks = (all + kThreads - 1) / kThreads;
  put_together_kernel<Piece><<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), kThreads, 0, stream>>>(matrix);
}

}  // namespace

void put_together_gpu(const RawMatrixParts& given, void* stream) {
  if (given.rows == 0 || given.columns == 0) return;
  auto matrix = given;
  const auto queue = static_cast<GpuStream>(stream);
  const int64_t each = static_cast<int64_t>(sizeof(Words)) / matrix.element;
  if (in_pieces(matrix, each)) {
    matrix.columns /= each, matrix.pitch /= each;
    for (int k = 0; k < matrix.count; ++k)
      matrix.parts[k].column /= each, matrix.parts[k].columns /= each, matrix.parts[k].pitch /= each;
    launch_parts<Words>(matrix, queue);
  } else if (matrix.element == 2) {
    launch_parts<uint16_t>(matrix, queue);
  } else {
    launch_parts<uint32_t>(matrix, queue);
  }
  check_launch("put_together");
}

}  // namespace hyperion::blocks

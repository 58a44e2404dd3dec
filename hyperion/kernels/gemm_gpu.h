// The raw entry point of matrix products on a GPU: row-major d = a b + c, and what is done beside it.
#pragma once
#include <cstdint>

namespace hyperion::kernels {

enum class GemmType { fp32, bf16, fp16, e4m3, e5m2 };

struct RawGemm {
  const void *a, *b, *c, *bias;  // c and bias may be null
  void* d;
  int64_t rows, columns, k;
  bool transpose_a, transpose_b;
  GemmType type, out;
  bool may_round_to_tf32;
  float scale = 1;                                             // of a b
  int64_t a_pitch = 0, b_pitch = 0, c_pitch = 0, d_pitch = 0;  // elements from row to row; 0: rows lie close together
  // Of products in 8 bits: b's own type, what gives the values back (one number on the device each, or one a row of a
  // and of b^T), and whether sums may be made in fewer bits. b is transposed, a is not.
  GemmType b_type = type;
  const float *a_inverse = nullptr, *b_inverse = nullptr;
  bool by_rows = false, fast = false;
};

// False where the library knows no way to do all this in one call; nothing has been done then.
bool gemm_gpu(const RawGemm& p, bool measure, void* stream);

}  // namespace hyperion::kernels

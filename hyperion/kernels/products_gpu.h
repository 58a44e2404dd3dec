// The raw entry point of matrix products on a GPU: row-major d = a b + c, and what is done beside it.
#pragma once
#include <cstdint>

namespace hyperion::kernels {

enum class ProductType { fp32, bf16, fp16 };

struct RawProduct {
  const void *a, *b, *c, *bias;  // c and bias may be null
  void* d;
  void* bias_gradient;  // column sums of a where gradient_of_a, else of b; may be null
  bool gradient_of_a;
  int64_t rows, columns, k;
  bool a_turned, b_turned;
  ProductType type, out;
  bool may_round_to_tf32;
};

// False where cuBLASLt knows no way to do all this in one call; nothing has been done then.
bool product_gpu(const RawProduct& product, bool measure, void* stream);

}  // namespace hyperion::kernels

#include "hyperion/kernels/fp8_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {
int64_t fp8_tile_rows(int64_t) { no_gpu_kernels(); }
void fp8_values_gpu(const Bfloat16*, const Fp8Tiles&, void*) { no_gpu_kernels(); }
void fp8_norm_gpu(const Fp8NormInput&, const Fp8Tiles&, void*) { no_gpu_kernels(); }
void fp8_activation_gpu(Activation, const Bfloat16*, const Bfloat16*, Bfloat16*, const Fp8Tiles&, void*) {
  no_gpu_kernels();
}
void fp8_numbers_gpu(const Fp8Numbers&, void*) { no_gpu_kernels(); }

}  // namespace hyperion::kernels

#include "hyperion/base/error.h"
#include "hyperion/kernels/fp8_math.h"

namespace hyperion::kernels {
namespace {
[[noreturn]] void absent() { throw base::Error("this build has no GPU kernels", "build the cuda preset"); }
}  // namespace

int64_t fp8_tile_rows(int64_t) { absent(); }
void fp8_values_gpu(const Bfloat16*, const Fp8Tiles&, void*) { absent(); }
void fp8_norm_gpu(const Fp8NormInput&, const Fp8Tiles&, void*) { absent(); }
void fp8_activation_gpu(Activation, const Bfloat16*, const Bfloat16*, Bfloat16*, const Fp8Tiles&, void*) { absent(); }
void fp8_numbers_gpu(const Fp8Numbers&, void*) { absent(); }

}  // namespace hyperion::kernels

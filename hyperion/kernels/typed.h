// From a tensor's type to ours: for sources that call the raw entry points.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/base/error.h"
#include "hyperion/device/gpu.h"
#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

using device::on_gpu;

// use(float{}), use(Bfloat16{}) or use(Half{}).
template <class Use>
void with_type(at::ScalarType type, Use use) {
  if (type == at::kFloat) return use(float{});
  if (type == at::kBFloat16) return use(Bfloat16{});
  HYPERION_CHECK(type == at::kHalf, "kernels take fp32, bf16 or fp16");
  use(Half{});
}

// Null where the tensor is undefined.
template <class T>
T* pointer(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}

inline void* stream_of(const at::Tensor& tensor) { return device::current_gpu_stream(tensor.get_device()); }

}  // namespace hyperion::kernels

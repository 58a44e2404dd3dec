#include "hyperion/nn/without_memory.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace hyperion::nn {
namespace {
thread_local bool wanted_here = false;
}

WithoutMemory::WithoutMemory() : outer_(std::exchange(wanted_here, true)) {}
WithoutMemory::~WithoutMemory() { wanted_here = outer_; }
bool WithoutMemory::wanted() { return wanted_here; }

at::Tensor without_memory(at::IntArrayRef shape, const at::TensorOptions& options) {
  auto tensor = at::empty({0}, options.requires_grad(false));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

bool has_memory(const at::Tensor& tensor) { return tensor.numel() == 0 || tensor.storage().nbytes() > 0; }

}  // namespace hyperion::nn

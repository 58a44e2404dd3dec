#include "hyperion/nn/meta.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace hyperion::nn {
namespace {
thread_local bool wanted_here = false;
}

MetaScope::MetaScope() : outer_(std::exchange(wanted_here, true)) {}
MetaScope::~MetaScope() { wanted_here = outer_; }
bool MetaScope::wanted() { return wanted_here; }

at::Tensor meta_tensor(at::IntArrayRef shape, const at::TensorOptions& options) {
  auto tensor = at::empty({0}, options.requires_grad(false));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

bool is_materialized(const at::Tensor& tensor) { return tensor.numel() == 0 || tensor.storage().nbytes() > 0; }

}  // namespace hyperion::nn

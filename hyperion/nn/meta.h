// Parameters that are names and shapes alone: a model that is cut among processes is made so, as no process has room
// for all of it. Each process gives memory and values only to what it holds.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::nn {

// While one lives, the modules made in this thread have parameters without memory.
class MetaScope {
 public:
  MetaScope();
  ~MetaScope();
  MetaScope(const MetaScope&) = delete;
  MetaScope& operator=(const MetaScope&) = delete;
  static bool wanted();

 private:
  bool outer_;
};

at::Tensor meta_tensor(at::IntArrayRef shape, const at::TensorOptions& options);
bool is_materialized(const at::Tensor& tensor);  // or needs none

}  // namespace hyperion::nn

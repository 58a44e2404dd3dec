// Parameters that are names and shapes alone: a model that is cut among processes is made so, as no process has room
// for all of it. Each process gives memory and values only to what it holds.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::nn {

// While one lives, the modules made in this thread have parameters without memory.
class WithoutMemory {
 public:
  WithoutMemory();
  ~WithoutMemory();
  WithoutMemory(const WithoutMemory&) = delete;
  WithoutMemory& operator=(const WithoutMemory&) = delete;
  static bool wanted();

 private:
  bool outer_;
};

at::Tensor without_memory(at::IntArrayRef shape, const at::TensorOptions& options);
bool has_memory(const at::Tensor& tensor);  // or needs none

}  // namespace hyperion::nn

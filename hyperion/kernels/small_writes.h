// A few small writes to one device's memory, on a GPU as one launch: numbers by value, and copies. Each by itself would
// cost as much.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>

#include "hyperion/kernels/small_writes_math.h"

namespace hyperion::kernels {

class SmallWrites {
 public:
  // `values` are taken now.
  void set(const at::Tensor& to, std::span<const float> values);
  void set(const at::Tensor& to, uint32_t value);
  // Both as they are when the writes run, and kept until `queue`. Tensors that are large, or lie otherwise, are copied
  // at once and by themselves.
  void copy(const at::Tensor& to, const at::Tensor& from);
  void queue();  // on the current stream

 private:
  SmallWrite* next(const at::Tensor& to, int64_t bytes);

  SmallWriteList list_{};
  at::Tensor kept_[2 * kSmallWrites];
};

}  // namespace hyperion::kernels

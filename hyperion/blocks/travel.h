// Hidden states on their way into and out of linears whose weights lie in shards on several processes, while the
// linears' products are made. The linears ask for it in their forward and backward: nothing here is differentiable.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "hyperion/kernels/gemm.h"

namespace hyperion::blocks {

enum class Sent { states, gradients };

// A process has [batch, length, width] whole or, by sequence, a part of the length. Rows of products are those of the
// whole. Every process must ask for the same in the same order.
class Travel {
 public:
  virtual ~Travel() = default;
  // Into how many parts the length is cut: 1 unless by sequence.
  virtual int64_t parts() const = 0;

  // Waits until all has arrived; must be called before what was asked for is looked at. Dropped, it leaves no trace.
  using Finish = std::function<void()>;
  // out: this process's part of the sum over the processes of what `product` is on each. Large products are made piece
  // by piece: one travels while the next is made.
  virtual Finish sum(const at::Tensor& out, const kernels::Gemm& product, Sent sent) = 0;

  struct Gathered {
    at::Tensor whole, product;
  };
  // The parts of all, and their product with what `product` has beside its `a`, likewise made of what has arrived;
  // without a `b` none is made.
  virtual Gathered gather(const at::Tensor& own, const kernels::Gemm& product, Sent sent) = 0;
};

}  // namespace hyperion::blocks

// What the forward of a module may need of the other processes of a run. Parallel code fills these in and hangs them
// into the pass; modules know no ranks.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "hyperion/blocks/travel.h"

namespace hyperion::nn {

class Module;

// Stands around the blocks of a network: has a block's weights there when it runs, forward and backward.
class BlockHook {
 public:
  virtual ~BlockHook() = default;
  using Forward = std::function<at::Tensor(const at::Tensor& input)>;
  virtual at::Tensor run(Module& block, const at::Tensor& input, const Forward& forward) = 0;
};

// Statistics of a batch whose rows are spread over processes, an equal number on each.
class BatchStats {
 public:
  virtual ~BatchStats() = default;
  virtual int64_t count() const = 0;
  // Of one's own [columns] those of all, [count, columns]; gradients find their way back to each process.
  virtual at::Tensor gather(const at::Tensor& own) = 0;
};

using blocks::Sent, blocks::Travel;

// Processes that each hold a shard of the layers of one model: tensor parallelism (Shoeybi et al., 2019). Between
// `into` and `out_of` weights are cut; outside of that all compute the same or, by sequence (Korthikanti et al., 2022),
// each its part of the tokens. Tensors are [batch, length, width].
class Shards {
 public:
  virtual ~Shards() = default;
  virtual int64_t count() const = 0;
  virtual int64_t index() const = 0;
  // For linears that take what enters and leaves them into their own hands, so that it travels while they compute.
  virtual Travel& travel(bool by_sequence) = 0;
  // What all of them need: the same, or the parts of all along the length. Their gradients are added up.
  virtual at::Tensor into(const at::Tensor& hidden, bool by_sequence) = 0;
  // The sum of what each has; by sequence, of it this one's part.
  virtual at::Tensor out_of(const at::Tensor& part, bool by_sequence) = 0;
  // [count, ...]: what each has, which is of one shape. Not differentiable.
  virtual at::Tensor gather(const at::Tensor& own) = 0;
};

}  // namespace hyperion::nn

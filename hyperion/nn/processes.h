// What the forward of a module may need of the other processes of a run. Parallel code fills these in and hangs them
// into the pass; modules know no ranks.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "hyperion/blocks/travel.h"
#include "hyperion/strategy/context.h"

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

// Processes that each compute a part of every sample's tokens with the same weights: context parallelism. What they
// bring each other; what is made of it, forward and backward: nn/context.h. Not differentiable.
class Context {
 public:
  virtual ~Context() = default;
  virtual int64_t count() const = 0;
  virtual int64_t index() const = 0;
  virtual strategy::ContextMethod method() const = 0;
  // Round a ring: `own` begins its way to the next process, and must stay as it is until the answer is there, which is
  // what the process before gave, of the same shape. `caller`: who the bytes are counted for.
  using Answer = std::function<at::Tensor()>;
  virtual Answer pass_on(const at::Tensor& own, const char* caller) = 0;
  // [count, ...]: the i-th is for process i; and of process i what it had for this one.
  virtual at::Tensor exchange(const at::Tensor& for_each, const char* caller) = 0;
  virtual at::Tensor sum(const at::Tensor& own, const char* caller) = 0;
};

// Processes that each hold some of the experts of every mixture, in their order, and send each other the tokens for
// them: expert parallelism. What is made of it: nn/expert_exchange.h. Not differentiable.
class ExpertPeers {
 public:
  virtual ~ExpertPeers() = default;
  virtual int64_t count() const = 0;
  virtual int64_t index() const = 0;
  // Of [rows, width] the first sent[0] are for process 0, and so on; and received[i] of process i's for this one, in
  // that order.
  virtual at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                              const std::vector<int64_t>& received, const char* caller) = 0;
};

}  // namespace hyperion::nn

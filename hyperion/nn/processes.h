// What the forward of a module may need of the other processes of a run. Parallel code fills these in and hangs them
// into the pass; modules know no ranks.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

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

}  // namespace hyperion::nn

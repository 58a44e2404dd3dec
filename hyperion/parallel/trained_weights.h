// What a step trains, wherever it and its gradients lie: whole in one process, copied on several, or cut among them
// (DDP and ZeRO; Rajbhandari et al., 2020). A step knows no more of it than this.
//
//   zero  weights          gradients                       optimizer's state
//   0     whole            whole, all-reduced              whole
//   1     whole            whole, then reduce-scattered    a piece   updated pieces are gathered after the update
//   2     whole            a piece, fp32                   a piece   likewise
//   3     a piece          a piece, fp32                   a piece   gathered block by block, forward and backward
//
// The loss must be divided by what all ranks count, so that gradients only need to be added. Without communication
// until the last micro-batch for 0 and 1; 2 and 3 reduce each, as they have no room for a sum.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/nn/processes.h"
#include "hyperion/optim/clip.h"
#include "hyperion/optim/optimizer.h"
#include "hyperion/parallel/buckets.h"
#include "hyperion/parallel/config.h"
#include "hyperion/parallel/flat_weights.h"
#include "hyperion/parallel/sums_so_far.h"

namespace hyperion::parallel {

class Processes;

class TrainedWeights {
 public:
  virtual ~TrainedWeights() = default;

  // What this process updates, each with its master. To be asked once: they are the optimizer's from then on.
  virtual std::vector<nn::Parameter> take_parts() = 0;

  // Weights or gradients are on their way while a step runs: other processes wait for them.
  virtual bool travel() const { return false; }
  virtual nn::BlockHook* block_hook() { return nullptr; }  // of weights that come and go block by block, for nn::Pass

  // Around each forward; the end only where no backward follows.
  virtual void begin_pass() {}
  virtual void end_pass() {}
  // Around each backward, the `index`-th of `count` in a step, of micro-batch `part`; others may be between forward and
  // backward.
  virtual void begin_backward(int64_t index, int64_t count, int64_t part) = 0;
  virtual void end_backward() = 0;
  // Between two backwards, where nothing travels: what they added up so far. Where their work is replayed from graphs,
  // which write to the same tensors, `go_on_from` takes the place of the calls around them.
  virtual SumsSoFar sums_so_far() const = 0;
  virtual void go_on_from(const SumsSoFar& before) = 0;
  // After the last: one a part.
  virtual std::vector<at::Tensor> gradients() = 0;
  virtual void drop_gradients() = 0;
  // The norm of the whole gradient; the loss becomes that of the whole batch on the way.
  virtual optim::ClipResult clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients, double limit,
                                 double loss_scale, at::Tensor& loss) = 0;
  // same_bits: what `clip` makes the norm of: those of whole gradients of trained weights, in their order, with the
  // loss.
  virtual at::Tensor norms(const std::vector<at::Tensor>& /*gradients*/, at::Tensor& /*loss*/) { return {}; }
  virtual void updated() {}  // after the optimizer, or a load, changed the parts
  virtual void settle() {}   // waits for what `updated` has sent: nothing of a step is under way after it

  // All weights whole until the scope ends, for work that knows no blocks.
  class Whole {
   public:
    explicit Whole(TrainedWeights& owner) : owner_(owner) { owner_.hold(); }
    ~Whole() { owner_.let_go(); }
    Whole(const Whole&) = delete;
    Whole& operator=(const Whole&) = delete;

   private:
    TrainedWeights& owner_;
  };

  struct Bytes {
    int64_t weights = 0, gradients = 0;  // held by this process between steps, and until the update
    int64_t taken_over = 0;              // of those weights, before anything was cut
  };
  virtual Bytes bytes(int64_t micro_batches) const = 0;

 private:
  virtual void hold() {}
  virtual void let_go() {}
};

// What a process that has some stages of a model must know of it.
struct StagedWeights {
  std::string tied = {};                  // the weight that the first and the last process both have; empty: none
  std::vector<std::string> trained = {};  // all that the model trains, in its order
  std::function<bool(const std::string& weight)> spreads = {};  // it is an expert's, and others hold other experts
};

// As the config and the number of processes say. `root`: the tree whose blocks run one by one; null: it has none.
// `weights`: with the values that each trained one was narrowed from as its master, but where it came without memory.
// `values`: of weights without memory, which only zero = 3 takes. Of a pipeline, `weights` are those of this process's
// stages.
std::unique_ptr<TrainedWeights> make_trained_weights(Processes& processes, const ParallelConfig& config,
                                                     std::vector<nn::Parameter> weights, nn::Module* root,
                                                     const Values& values = {}, const StagedWeights& staged = {});

}  // namespace hyperion::parallel

// Training on shares of a batch by several processes (DDP and ZeRO; Rajbhandari et al., 2020). Gradients are summed
// over the ranks while the backward runs. What `zero` says is cut into pieces, one a rank:
//
//   zero  weights          gradients                       optimizer's state
//   0     whole            whole, all-reduced              whole
//   1     whole            whole, then reduce-scattered    a piece   updated pieces are gathered after the update
//   2     whole            a piece, fp32                   a piece   likewise
//   3     a piece          a piece, fp32                   a piece   gathered block by block, forward and backward
//
// Without communication until the last micro-batch for 0 and 1; 2 and 3 reduce each, as they have no room for a sum.
// The loss must be divided by what all ranks count, so that gradients only need to be added.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"
#include "hyperion/optim/clip.h"
#include "hyperion/optim/optimizer.h"
#include "hyperion/parallel/buckets.h"

namespace hyperion::parallel {

struct DataParallelOptions {
  int64_t zero = 0, bucket_bytes = 25 << 20, prefetch = 1;
  at::ScalarType wire = at::ScalarType::Undefined;  // of gradients between ranks; undefined: as they are
  // Gradients are summed in one tree over all micro-batches, and the norm is that of whole weights, so that the bits do
  // not depend on the ranks (a power of two) or on `zero`. Costs memory for the gradients of every micro-batch.
  bool same_bits = false;
  // Set: this many more ranks hold the same pieces, and the sums go on over them (hybrid sharding). Not for zero = 0.
  comm::Group* replicas = nullptr;
  // ZeRO++, for zero = 3. Weights are gathered in 8 bits; a second copy, cut among the ranks of a node, serves every
  // gather of a step but the first; gradients are reduced in 8 bits, within nodes first.
  bool quantised_weights = false;
  comm::Group *secondary = nullptr, *node = nullptr, *across_nodes = nullptr;
  // For weights without memory (nn/without_memory.h), which zero = 3 takes: each rank asks for its own piece alone.
  // Elements [begin, begin + out.numel()) of the weight of that name; `out` is fp32 on the CPU.
  std::function<void(const std::string& name, int64_t begin, const at::Tensor& out)> values = {};
};

// The weights of a tree with their blocks; a null root has none.
void number_units(std::vector<Weight>& weights, nn::Module* root, std::map<nn::Module*, int>& units);

class DataParallel final : public nn::AroundBlocks {
 public:
  // Takes the weights over: from zero = 1 on they lie in buffers of its own, for 3 without memory while not in use.
  // `gradients` and `gathers` may be one group; two let a gather pass a reduction.
  DataParallel(comm::Group& gradients, comm::Group& gathers, std::vector<Weight> weights, nn::Module* root,
               const DataParallelOptions& options);
  ~DataParallel() override;

  // What this rank updates: whole weights, or flat slices of them.
  struct Part {
    optim::Parameter parameter;
    bool whole = true;
    int64_t begin = 0;  // in the flattened weight
    std::vector<int64_t> shape;
  };
  const std::vector<Part>& parts() const { return parts_; }
  // One a part, fp32: the part itself where it is fp32, else its values of `wide`, one a trained weight (undefined for
  // one that came without memory). To be asked once.
  std::vector<at::Tensor> masters(const std::vector<at::Tensor>& wide);

  // Around each forward; the end only where no backward follows.
  void begin_pass();
  void end_pass();
  at::Tensor run(nn::Module& block, const at::Tensor& input, const Forward& forward) override;

  // Around each micro-batch with a backward, `index` of `count`.
  void begin_micro_batch(int64_t index, int64_t count);
  void end_micro_batch();
  // After the last: one a part.
  std::vector<at::Tensor> gradients();
  void drop_gradients();
  // Of the gradients of all ranks; the loss becomes the sum over ranks on the way.
  optim::ClipResult clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale, at::Tensor& loss);
  void updated();  // after the optimizer, or a load, changed the parts

  // All weights whole until the scope ends, for work that knows no blocks.
  class Whole {
   public:
    explicit Whole(DataParallel& owner) : owner_(owner) { owner_.hold(); }
    ~Whole() { owner_.let_go(); }
    Whole(const Whole&) = delete;
    Whole& operator=(const Whole&) = delete;

   private:
    DataParallel& owner_;
  };

  struct Bytes {
    int64_t weights = 0, gradients = 0;  // held by this rank between steps, and until the update
  };
  Bytes bytes(int64_t micro_batches) const;
  bool weights_are_cut() const { return options_.zero == 3; }

 private:
  class ReadyHook;
  template <void (DataParallel::*)(int)>
  struct InBackward;
  struct State;  // of one bucket

  void adopt(State& state);
  void fill(State& state);
  void hold();
  void let_go();
  void fetch(State& state);
  void release(State& state);
  void need(int unit);
  void ahead(int unit);
  void release(int unit);
  void enter_backward(int unit);
  void leave_backward(int unit);
  void ready(size_t weight);
  void take(State& state, size_t place);
  void close(State& state);
  void reduce_ready();
  void reduce(State& state);
  bool reduces_now() const;
  at::Tensor flat_gradient(State& state);
  at::Tensor whole_norm();
  void sum_over_replicas(State& state);

  comm::Group &reductions_, &gathers_;
  std::vector<Weight> weights_;
  DataParallelOptions options_;
  std::map<nn::Module*, int> units_;
  int last_unit_ = 0;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<std::pair<State*, size_t>> place_of_;  // by weight
  std::vector<Part> parts_;
  std::vector<at::Tensor> filled_;  // by part: fp32 values of weights that came without memory; else undefined
  int64_t index_ = 0, count_ = 1;
  ptrdiff_t next_ = -1;  // the bucket whose gradients go next: from the last to the first
  int held_ = 0;
};

}  // namespace hyperion::parallel

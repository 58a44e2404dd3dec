// Sums gradients over the ranks while the backward runs: a bucket goes when its last gradient is there, always in the
// same order, so that ranks whose gradients come in another still meet.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/parallel/flat_weights.h"
#include "hyperion/parallel/sums_so_far.h"

namespace hyperion::parallel {

struct ReduceOptions {
  bool scatter = false;  // to each rank its piece of the sum, in fp32; else the whole to all
  bool each = false;  // every micro-batch is reduced, as there is no room for a sum here; else the last, with the sum
  at::ScalarType wire = at::ScalarType::Undefined;  // of gradients between ranks; undefined: as they are
  // One tree over all micro-batches, so that the bits depend on neither ranks (a power of two) nor on what is cut.
  // Costs memory for the gradients of every micro-batch.
  bool same_bits = false;
  // Of those: the first and the last process of a pipeline, and the weight that both have (FlatWeights keeps it apart).
  comm::Group* ends = nullptr;
  std::string tied = {};
  comm::Group* replicas = nullptr;  // the sums go on over these, who hold the same pieces (hybrid sharding)
  comm::Group *node = nullptr, *across_nodes = nullptr;  // ZeRO++: in 8 bits, within nodes first
};

class GradientReducer {
 public:
  GradientReducer(FlatWeights& weights, comm::Group& group, const ReduceOptions& options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Around each backward, the `index`-th of `count` in a step, of micro-batch `part`: a process that has several stages
  // goes through each of its micro-batches as often. Micro-batches may be between forward and backward.
  void begin(int64_t index, int64_t count, int64_t part);
  void block_is_over(int unit);  // none of its weights gets a gradient any more
  void end();
  // After the last: one flat sum a buffer, for FlatWeights::by_part. Waits for them.
  std::vector<at::Tensor> sums();
  std::vector<at::Tensor> whole_sums();  // of scattered ones, gathered: for FlatWeights::by_weight
  void drop();
  // Of stages 0 and 1, between two backwards: what they added up here, one sum a bucket.
  SumsSoFar so_far() const;
  void go_on_from(const SumsSoFar& before);

  int64_t bytes(int64_t micro_batches) const;  // of gradients, until the update

 private:
  class ReadyHook;
  struct Flat {
    at::Tensor values;         // undefined: nothing yet
    std::vector<char> filled;  // by place; what is not counts as zero
  };
  struct Bucket {
    std::vector<Flat> parts;  // same_bits: one a micro-batch; else one, in which they add up
    at::Tensor sum;
    std::vector<comm::Pending> reductions;
  };
  // Of one backward.
  struct Progress {
    std::vector<char> taken;  // by place
    size_t missing = 0;
    bool closed = false;
  };
  struct Backward {
    int64_t index, count, part;
    size_t left;  // buckets that have not gone yet: from the last to the first
    std::vector<Progress> progress;
  };

  bool reduces_now() const;
  void ready(size_t weight);
  void take(size_t bucket, size_t place);
  void reduce_ready();
  void reduce(size_t bucket);
  Flat& begun(size_t bucket, size_t part);
  at::Tensor filled(size_t bucket, size_t part);
  void add_ends();

  FlatWeights& weights_;
  comm::Group& group_;
  ReduceOptions options_;
  std::vector<Bucket> buckets_;
  std::optional<size_t> tied_;  // the bucket that the ends add up first
  Backward backward_{0, 1, 0, 0, {}};
};

}  // namespace hyperion::parallel

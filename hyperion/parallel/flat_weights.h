// Weights in flat buffers that are cut into equal pieces, one a rank (parallel/buckets.h): where they lie, and which
// part of each this rank updates.
#pragma once
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "hyperion/nn/parameter.h"
#include "hyperion/parallel/buckets.h"

namespace hyperion::nn {
class Module;
}

namespace hyperion::parallel {

// Of weights without memory (nn/meta.h): elements [begin, begin + out.numel()) of the one of that name; `out`
// is fp32 on the CPU.
using Values = std::function<void(const std::string& name, int64_t begin, const at::Tensor& out)>;

// What a rank holds between steps.
enum class Held {
  apart,   // every weight whole, where the model has it, and updated so
  flat,    // every weight whole, as a view of a buffer of which this rank updates its piece
  pieces,  // of each buffer its piece alone: the weights have memory only while they are gathered
};

struct FlatBuffer {
  Bucket plan;
  at::Tensor full;   // undefined where weights lie apart
  at::Tensor piece;  // this rank's: a view of `full`, of weights held in pieces memory of its own
};

class FlatWeights {
 public:
  struct Options {
    int64_t rank = 0, ranks = 1;
    Held held = Held::apart;
    int64_t bucket_bytes = 25 << 20;
    std::string alone = {};  // the name of a weight whose buffer holds it alone
    Values values = {};      // for weights without memory, which are held in pieces: each rank asks for its own alone
  };
  // Takes the weights over, where they do not lie apart. `root`: the tree whose blocks are its units; null: it has
  // none.
  FlatWeights(std::vector<nn::Parameter> weights, nn::Module* root, const Options& options);

  Held held() const { return options_.held; }
  const std::vector<nn::Parameter>& weights() const { return weights_; }
  const std::vector<FlatBuffer>& buffers() const { return buffers_; }
  std::pair<size_t, size_t> place_of(size_t weight) const { return place_of_[weight]; }  // buffer, and place in it
  int unit_of(const nn::Module& block) const;  // from 1 in the order they run; 0: it is none
  int last_unit() const;                       // that has a buffer here

  // What this rank updates, each with its master: whole weights, or flat slices of them. To be asked once.
  std::vector<nn::Parameter> take_parts() { return std::move(parts_); }
  // One a part, of one flat tensor a trained buffer: as long as it where weights lie apart, else as its piece.
  std::vector<at::Tensor> by_part(const std::vector<at::Tensor>& flat) const;
  // One a trained weight, of flat tensors as long as the buffers.
  std::vector<at::Tensor> by_weight(const std::vector<at::Tensor>& flat) const;

  int64_t bytes() const;  // held between steps
  int64_t taken_over() const { return taken_over_; }

 private:
  void adopt(FlatBuffer& buffer);
  at::Tensor fill(FlatBuffer& buffer);
  void make_parts(const std::vector<at::Tensor>& filled);

  std::vector<nn::Parameter> weights_;  // their masters gone into the parts
  Options options_;
  std::map<const nn::Module*, int> units_;
  std::vector<FlatBuffer> buffers_;
  std::vector<std::pair<size_t, size_t>> place_of_;
  std::vector<nn::Parameter> parts_;
  int64_t taken_over_ = 0;
};

// The fp32 master of a weight whose values before it was narrowed are `wide`.
at::Tensor master_of(const at::Tensor& weight, const at::Tensor& wide);

// Memory goes and comes back under the tensors that look at it.
void take_memory(const at::Tensor& tensor);
void give_memory_back(const at::Tensor& tensor);

}  // namespace hyperion::parallel

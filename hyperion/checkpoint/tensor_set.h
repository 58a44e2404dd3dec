// Tensors by name, wherever they are stored: what is shown, compared and gathered of checkpoints and of other files.
#pragma once
#include <functional>
#include <map>

#include "hyperion/checkpoint/load.h"

namespace hyperion::checkpoint {

struct StoredTensor {
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  size_t shards = 1;  // files that hold a part of it
  uint64_t bytes = 0;
  std::function<at::Tensor()> read;  // on the CPU, verified where that can be; read it, never write to it
};

// What a checkpoint sets before the names of weights, and other tools do not.
constexpr std::string_view kWeightPrefix = "model.";

struct TensorSet {
  std::string place;        // for messages
  bool checkpoint = false;  // the names of weights begin with kWeightPrefix
  std::map<std::string, StoredTensor> tensors;
  uint64_t bytes() const;
  bool is_weight(const std::string& name) const { return !checkpoint || name.starts_with(kWeightPrefix); }
  // As other tools have it: "lm_head.weight" of a checkpoint's "model.lm_head.weight".
  std::string plain_name(const std::string& name) const;
};

TensorSet tensors_of(OpenedCheckpoint checkpoint);
void add_tensors(TensorSet& set, const std::shared_ptr<const SafetensorsFile>& file);

// Of all elements as doubles; those that are not finite are counted, and in nothing else.
struct TensorFacts {
  static constexpr int kBins = 16;
  int64_t elements = 0, not_finite = 0;
  double norm = 0, mean = 0, low = 0, high = 0;
  std::vector<int64_t> histogram = {};  // kBins equal parts from low to high; empty: there is nothing to count
};
TensorFacts facts_of(const at::Tensor& tensor);

}  // namespace hyperion::checkpoint

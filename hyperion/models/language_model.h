// What training, evaluation and generation need of a language model, without the module tree's heavy headers.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/nn/pass.h"
#include "hyperion/strategy/model_shape.h"

namespace hyperion::models {

struct Parameter {
  std::string name;   // Hugging Face's
  at::Tensor tensor;  // a leaf that requires a gradient
  bool decay;         // weight decay applies: matrices, not norms, biases or embeddings
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  // ids: int64 [batch, length] on the model's device -> [batch, length, vocabulary] in the compute type.
  virtual at::Tensor logits(const at::Tensor& ids, nn::Pass& pass) = 0;
  virtual std::vector<Parameter> parameters() = 0;
  virtual void initialise(uint64_t seed) = 0;  // fp32, on the CPU
  virtual void to(at::Device device, at::ScalarType type) = 0;
  virtual std::string config_json() const = 0;  // as Hugging Face's config.json
  virtual int64_t context() const = 0;          // most tokens a pass can see, the cache's included
  virtual strategy::ModelShape shape(int64_t length) const = 0;
};

}  // namespace hyperion::models

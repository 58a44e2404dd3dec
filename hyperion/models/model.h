// What training, evaluation and generation need of a model, without the module tree's heavy headers.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/nn/adapters.h"
#include "hyperion/nn/parameter.h"
#include "hyperion/nn/pass.h"
#include "hyperion/strategy/context.h"
#include "hyperion/strategy/cut.h"
#include "hyperion/strategy/expert_parallel.h"
#include "hyperion/strategy/model_shape.h"

namespace hyperion::nn {
class Module;
}

namespace hyperion::models {

class Parts;
using nn::Parameter;

// State that is no parameter: running statistics. Kept in checkpoints and folders.
struct Buffer {
  std::string name;
  at::Tensor tensor;
};

enum class Input { tokens, images };

// Where parameters that were made without memory (nn/meta.h) get their values from: elements [begin, begin +
// out.numel()) of the one of that name; `out` is fp32 on the CPU.
using Values = std::function<void(const std::string& name, int64_t begin, const at::Tensor& out)>;

class Model {
 public:
  virtual ~Model() = default;
  virtual Input input() const { return Input::tokens; }
  // Tokens: int64 [batch, length] -> [batch, length, vocabulary]. Images: [batch, channels, height, width] in the
  // compute type -> [batch, classes]. On the model's device; the result in the compute type. A model with a loss of its
  // own (the balance of experts) leaves it in the pass.
  virtual at::Tensor logits(const at::Tensor& input, nn::Pass& pass) = 0;
  // The mean cross entropy of the logits against targets, -100: not counted; tokens [batch, length], classes [batch] or
  // their parts in fp32 [batch, classes].
  virtual at::Tensor loss(const at::Tensor& input, const at::Tensor& targets, nn::Pass& pass);
  virtual std::vector<Parameter> parameters() = 0;
  virtual std::vector<Buffer> buffers() = 0;
  // Everything it holds for good: parameters, buffers, weights in 4 bits.
  virtual std::vector<at::Tensor> held() = 0;
  virtual void initialise(uint64_t seed) = 0;  // fp32, on the CPU; parameters without memory stay so
  virtual Values initial_values(uint64_t /*seed*/) { return {}; }
  virtual void to(at::Device device, at::ScalarType type) = 0;
  virtual nn::Adapters& adapters() = 0;
  // Puts the weights of all linear layers but the output "lm_head" into 4 bits (kernels/nf4.h), where they lie now.
  // They are no parameters any more; what is left is frozen, to be trained through adapters.
  virtual void quantize() = 0;
  // The tree whose blocks run one by one; null: the model is one unit.
  virtual nn::Module* tree() { return nullptr; }
  // The calls that the whole forward is made of (models/parts.h); null: the model is one part.
  virtual Parts* parts() { return nullptr; }
  virtual std::string config_json() const = 0;                   // as Hugging Face's config.json
  virtual int64_t context() const { return 0; }                  // most tokens a pass can see, the cache's included
  virtual strategy::ModelShape shape(int64_t length) const = 0;  // of sequences; images have the config's size
  // How each of its parameters may be cut among processes; none: it shares its batch and its state alone.
  virtual std::vector<strategy::CutRule> cuts() const { return {}; }
  virtual strategy::TokenMixing mixing() const { return {}; }
  virtual strategy::ExpertUse experts() const { return {}; }
  // How often the linear layer at `path` is multiplied with for a token, or for an image.
  virtual double uses(const std::string& /*path*/) const { return 1; }
  // The name Hugging Face's files give a parameter or buffer: its own, but for families whose classes were renamed.
  virtual std::string stored_name(const std::string& name) const { return name; }
};

// What Model::loss makes of logits; where the pass counts right answers, counts them.
at::Tensor loss_of_logits(const at::Tensor& logits, const at::Tensor& targets, nn::Pass& pass);

// What it costs to train that adapter of the model, and nothing else of it.
strategy::ModelShape adapted_shape(Model& model, const std::string& adapter, int64_t length);

}  // namespace hyperion::models

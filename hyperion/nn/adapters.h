// The adapters of one module tree, side by side under names. Light: any file may include it.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/nn/lora.h"

namespace hyperion::nn {

class Module;
struct AdapterChoice;

class Adapters {
 public:
  explicit Adapters(Module& root);
  ~Adapters();
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;

  // Adds an adapter, A random from the seed and the parameters' names, B zero, so that it changes nothing yet. Freezes
  // every parameter that is no adapter's, but for the modules trained beside it. The first added is used by passes that
  // pick none. The name is letters, digits,
  // "_" and "-". Throws ConfigError where no layer is meant, one that is not linear, or the name is taken.
  void add(const std::string& name, const LoraConfig& config, uint64_t seed);

  bool empty() const { return names().empty(); }
  const std::vector<std::string>& names() const;
  const LoraConfig& config(const std::string& name) const;
  int64_t index(const std::string& name) const;  // for Pass::adapters; "" is the base, -1. Throws ConfigError
  void use(const std::string& name);             // by passes that pick none

  struct Entry {
    std::string name;  // <path>.lora_A.weight, <path>.lora_B.weight, or a parameter of a module trained beside it
    at::Tensor tensor;
  };
  std::vector<Entry> parameters(const std::string& name) const;

  // Gives a parameter of an adapter, one of the root's tree, a value in the value's own type. Such an adapter is to be
  // written or merged, which rounds once; passes want the model's type.
  void set_in_own_type(const at::Tensor& parameter, const at::Tensor& value);
  // A type of values so set, and the other type of the model that merging rounds them to; none where it rounds nothing.
  struct Rounding {
    at::ScalarType from, to;
  };
  std::optional<Rounding> rounding() const;

  // The layers of an adapter as names: the last parts of their paths where these mean just them, else the paths.
  std::vector<std::string> layers(const std::string& name) const;
  bool first_is_in_out(const std::string& name) const;  // its first layer stores its weight [in, out]

  // Adds one to the weights, drops them all, and thaws the base.
  void merge(const std::string& name);

 private:
  Module& root_;
  std::shared_ptr<AdapterChoice> choice_;
  std::vector<LoraConfig> configs_;
  std::vector<std::pair<at::Tensor, at::ScalarType>> in_own_type_;  // with the model's type
};

}  // namespace hyperion::nn

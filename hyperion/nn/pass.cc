#include "hyperion/nn/pass.h"

#include <ATen/ops/cat.h>

namespace hyperion::nn {

std::pair<at::Tensor, at::Tensor> KeyValueCache::extend(size_t layer, const at::Tensor& keys,
                                                        const at::Tensor& values) {
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  auto& [held_keys, held_values] = layers_[layer];
  held_keys = held_keys.defined() ? at::cat({held_keys, keys}, 2) : keys;
  held_values = held_values.defined() ? at::cat({held_values, values}, 2) : values;
  return {held_keys, held_values};
}

}  // namespace hyperion::nn

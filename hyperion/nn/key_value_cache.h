// What generation keeps of the tokens it has seen.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "hyperion/nn/pass.h"

namespace hyperion::nn {

// Keys and values of the tokens already seen, a pair a layer, so that generation computes each token once. They lie in
// tensors with room to spare: a token is written into its place, and only where the room is full is it doubled.
// No gradient flows into what is kept.
class KeyValueCache {
 public:
  // The first room holds at least `expected` tokens; told well, nothing is ever moved.
  explicit KeyValueCache(int64_t expected = 0) : expected_(expected) {}

  int64_t length() const;  // of the first layer that runs here: those before it may be another process's
  // Appends [batch, heads, tokens, head width] and returns all keys and values of this layer, as views of the room.
  std::pair<at::Tensor, at::Tensor> extend(size_t layer, const at::Tensor& keys, const at::Tensor& values);

 private:
  struct Layer {
    at::Tensor keys, values;  // [batch, heads, room, head width]
    int64_t length = 0;
  };
  int64_t expected_;
  std::vector<Layer> layers_;
};

// Tokens that a pass continues.
int64_t cached_tokens(const PassInputs& pass);

}  // namespace hyperion::nn

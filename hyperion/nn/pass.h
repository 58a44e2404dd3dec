// What one forward pass carries down the module tree besides tensors. Light: any file may include it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hyperion::nn {

// Keys and values of the tokens already seen, a pair a layer, so that generation computes each token once.
class KeyValueCache {
 public:
  int64_t length() const { return layers_.empty() ? 0 : layers_.front().first.size(2); }
  // Appends along the length and returns all keys and values of this layer.
  std::pair<at::Tensor, at::Tensor> extend(size_t layer, const at::Tensor& keys, const at::Tensor& values);

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> layers_;  // each [batch, heads, length, head width]
};

struct Pass {
  bool training = false;   // dropout is on
  bool reference = false;  // plain operations in place of fused ones
  uint64_t seed = 0;
  uint32_t step = 0, micro_batch = 0;
  KeyValueCache* cache = nullptr;  // set: the input continues what the cache holds
  at::Tensor key_mask;  // bool [batch, keys, the cache's included], false: padding, seen by no one; undefined: none
  at::Tensor cosines, sines;  // of the tokens' places; set by models with rotary positions
};

}  // namespace hyperion::nn

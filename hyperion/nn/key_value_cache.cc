#include "hyperion/nn/key_value_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace hyperion::nn {
namespace {

constexpr int64_t kLeastRoom = 64;

// The same tokens in a room of `size`, which is not smaller.
at::Tensor moved(const at::Tensor& held, int64_t length, const at::Tensor& like, int64_t size) {
  const at::Tensor room = at::empty({like.size(0), like.size(1), size, like.size(3)}, like.options());
  if (length > 0) room.narrow(2, 0, length).copy_(held.narrow(2, 0, length));
  return room;
}

}  // namespace

int64_t KeyValueCache::length() const {
  for (const auto& layer : layers_)
    if (layer.length > 0) return layer.length;
  return 0;
}

std::pair<at::Tensor, at::Tensor> KeyValueCache::extend(size_t layer, const at::Tensor& keys,
                                                        const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  Layer& held = layers_[layer];
  const int64_t added = keys.size(2), length = held.length + added;
  const int64_t room = held.keys.defined() ? held.keys.size(2) : 0;
  if (length > room) {
    const int64_t size = std::max({length, 2 * room, expected_, kLeastRoom});
    held.keys = moved(held.keys, held.length, keys, size);
    held.values = moved(held.values, held.length, values, size);
  }
  held.keys.narrow(2, held.length, added).copy_(keys);
  held.values.narrow(2, held.length, added).copy_(values);
  held.length = length;
  return {held.keys.narrow(2, 0, length), held.values.narrow(2, 0, length)};
}

int64_t cached_tokens(const PassInputs& pass) { return pass.cache != nullptr ? pass.cache->length() : 0; }

}  // namespace hyperion::nn

// The parts of a transformer that have no parameters: attention over the cache, rotary positions, and named dropout.
#pragma once
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "hyperion/blocks/rope.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/nn/pass.h"

namespace hyperion::nn {

using blocks::rope_frequencies;
using blocks::RopeConfig;
using blocks::RopeScaling;

// The tables of rotary positions, made when they change.
class Rotation {
 public:
  Rotation(int64_t head_width, const RopeConfig& config);
  // Gives the pass the rotation of its tokens: at the pass's positions, else from `first` on. hidden: [batch, length,
  // ...]. Dynamic scaling goes by the farthest position of the pass, in whichever row it is, padding aside; what a
  // cache holds stays rotated as it was.
  void apply_to(Pass& pass, int64_t first, const at::Tensor& hidden);

 private:
  using Key = std::tuple<int64_t, int64_t, at::ScalarType, at::Device, bool>;
  at::Tensor frequencies_for(const PassInputs& pass, int64_t length, at::Device device);
  bool differs_by_pass(const PassInputs& pass) const;  // though passes have the same shape

  int64_t head_width_;
  RopeConfig config_;
  at::Tensor frequencies_;  // fp32 whatever the parameters are
  std::optional<Key> known_;
  at::Tensor cosines_, sines_, half_cosines_, half_sines_;
};

// Turns queries or keys [batch, heads, length, head width] by the pass's rotation.
at::Tensor rotate(const at::Tensor& input, const PassScratch& pass);

// The hidden states [batch, length, width] that logits are wanted of: all, or each row's last.
at::Tensor wanted(const at::Tensor& hidden, const PassSettings& pass);

struct Attending {
  bool causal = true;
  double dropout = 0;  // of the weights, in training; costs the memory of plain attention
  int64_t window = 0;  // of causal attention: a query sees so many keys, its own place's included; 0: all before it
  int64_t first_head = 0, all_heads = 0;  // of a shard by heads: which of how many these begin with; 0: they are all
};

// Attention of [batch, heads, length, head width]; extends the pass's cache for this layer where there is one, which
// keeps all keys whatever the window. Keys and values may have fewer heads than queries.
at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, size_t layer, Pass& pass,
                  Attending how = {});

// Dropout of the stream "dropout/<layer>.<name>"; the identity unless training.
// `elements`: of a shard, those of the whole tensor that it holds.
at::Tensor dropout(const at::Tensor& input, double p, std::string_view name, size_t layer, const PassSettings& pass,
                   const kernels::ElementMap& elements = {});

// The same for an operation that drops on its way; p 0: nothing is dropped.
struct Dropped {
  double p = 0;
  kernels::RandomPlace place = {};
};
Dropped dropped(double p, std::string_view name, size_t layer, const PassSettings& pass,
                const kernels::ElementMap& elements = {});

}  // namespace hyperion::nn

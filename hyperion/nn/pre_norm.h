// One half of a pre-norm block, input + part(norm(input)), stated once. A part goes in by linears over one input,
// through attention or an activation, and out by a linear onto the residual:
//
//   const auto projected = half_.in(input, pass);
//   return half_.out(projected, nn::attend(projected, {.head_width = 64}, layer, pass), pass);
//
// Each step has a plain form, module by module through `run`, and a fused one, a single operation
// (blocks/block_ops.h; with adapters and frozen weights, in 4 bits or whole, blocks/adapted_linear.h). Which form the
// linears take is decided here, once for a half, from the pass and the linears. Attention has its fused form where the
// heads need no norm, no mask hides keys and no weight of it is dropped.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hyperion/blocks/adapted_linear.h"
#include "hyperion/kernels/activations_math.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/layers.h"

namespace hyperion::nn {

using kernels::Activation;
using Projections = std::vector<std::shared_ptr<Projection>>;

enum class Form { plain, fused, adapted };

// What the linears of a half gave.
struct Projected {
  at::Tensor residual;
  std::vector<at::Tensor> outputs;  // one a linear; unless plain: one alone, with theirs side by side
  std::vector<int64_t> widths;      // of each linear's
  Form form = Form::plain;
};

// Of the part's output, before the residual is added; see nn::dropout.
struct PartDropout {
  double p = 0;
  const char* name = "";
  size_t layer = 0;
};

class PreNorm {
 public:
  // The norm, too, belongs to whoever registered it. None: the input is normed already, and what comes out is the part
  // alone.
  PreNorm(std::shared_ptr<Norm> norm, Projections in, std::shared_ptr<Projection> out);

  Projected in(const at::Tensor& input, Pass& pass) const;
  at::Tensor out(const Projected& from, const at::Tensor& mixed, Pass& pass, const PartDropout& dropout = {}) const;
  // Of activation(what came in).
  at::Tensor out(const Projected& from, Activation activation, Pass& pass, const PartDropout& dropout = {}) const;

  // The weights of the linears in behind each other in memory, and so their biases; those that have adapters with room
  // beside them.
  void lay_out();

 private:
  Form form_in(const Pass& pass) const;
  bool cut(const PassSettings& pass) const { return pass.shards != nullptr && norm_ != nullptr; }
  // What the linears give where they are cut among processes, and what the one out gives on all of them together.
  std::vector<at::Tensor> in_shards(const at::Tensor& normed, const Projected& projected, Pass& pass) const;
  at::Tensor sum_of_shards(const at::Tensor& input, Pass& pass) const;
  at::Tensor joined(const Projected& from, const at::Tensor& input, Pass& pass, const PartDropout& dropout) const;
  // Of such a sum bias, dropout and residual.
  at::Tensor onto_residual(const Projected& from, const at::Tensor& sum, const Pass& pass,
                           const PartDropout& dropout) const;
  at::Tensor onto_residual(const Projected& from, std::optional<Activation> activation, const at::Tensor& input,
                           const Pass& pass, const PartDropout& dropout) const;

  std::shared_ptr<Norm> norm_;
  Projections in_;
  std::shared_ptr<Projection> out_;
  blocks::LaidRoom room_in_, room_out_;  // of weights that adapters change
};

struct SelfAttention {
  int64_t head_width;
  Attending how = {};
  Norm *query_norm = nullptr, *key_norm = nullptr;  // of each head; null: none
};

// Attention of queries, keys and values, from three linears or from one that gives as much of each, turned by the
// pass's rotation if it has one. How many heads there are is read off the widths: of a shard, its own.
at::Tensor attend(const Projected& projected, const SelfAttention& attention, size_t layer, Pass& pass);

}  // namespace hyperion::nn

#include "hyperion/models/stage.h"

#include <ATen/ops/zeros.h>

#include "hyperion/nn/module.h"

namespace hyperion::models {

Hidden run_stage(Parts& parts, const Stage& stage, const Hidden& input, const at::Tensor& targets, nn::Pass& pass) {
  at::Tensor states = stage.first ? parts.first(input.states, pass) : input.states;
  parts.begin_blocks(states, pass);
  if (input.beside.defined()) parts.put_beside(input.beside, pass);
  pass.blocks = stage.begin;
  const auto& blocks = parts.blocks().blocks();
  for (int64_t i = stage.begin; i < stage.end; ++i)
    states = nn::run_unit(*blocks[static_cast<size_t>(i)], nn::Unit::block, states, pass);
  if (!stage.last) {
    const int64_t size = parts.beside_size();
    auto beside = size > 0 ? parts.beside(pass) : at::Tensor();
    if (size > 0 && !beside.defined()) beside = at::zeros({size}, states.options().dtype(at::kFloat));
    return {states, beside};
  }
  return {targets.defined() ? parts.last_loss(states, targets, pass) : parts.last(states, pass)};
}

}  // namespace hyperion::models

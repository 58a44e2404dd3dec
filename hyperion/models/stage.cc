#include "hyperion/models/stage.h"

#include "hyperion/nn/module.h"

namespace hyperion::models {

at::Tensor run_stage(Parts& parts, const Stage& stage, const at::Tensor& input, const at::Tensor& targets,
                     nn::Pass& pass) {
  at::Tensor hidden = stage.first ? parts.first(input, pass) : input;
  parts.begin_blocks(hidden, pass);
  pass.blocks = stage.begin;
  const auto& blocks = parts.blocks().blocks();
  for (int64_t i = stage.begin; i < stage.end; ++i)
    hidden = nn::run_unit(*blocks[static_cast<size_t>(i)], nn::Unit::block, hidden, pass);
  if (!stage.last) return hidden;
  return targets.defined() ? parts.last_loss(hidden, targets, pass) : parts.last(hidden, pass);
}

}  // namespace hyperion::models

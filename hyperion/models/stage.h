// Some blocks of a model that follow each other, with its first part, its last part, or neither: a stage of a pipeline.
#pragma once
#include "hyperion/models/parts.h"

namespace hyperion::models {

struct Stage {
  int64_t begin, end;  // blocks
  bool first, last;
};

// `input`: what Model::logits takes, or the hidden states that the stage before gave. Gives hidden states; of the last
// stage the loss, or without targets the logits.
at::Tensor run_stage(Parts& parts, const Stage& stage, const at::Tensor& input, const at::Tensor& targets,
                     nn::Pass& pass);

}  // namespace hyperion::models

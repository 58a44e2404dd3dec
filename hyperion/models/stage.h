// Some blocks of a model that follow each other, with its first part, its last part, or neither: a stage of a pipeline.
#pragma once
#include "hyperion/models/parts.h"

namespace hyperion::models {

struct Stage {
  int64_t begin, end;  // blocks
  bool first, last;
};

// What one stage gives to the next; of the last stage the loss, or without targets the logits, as `states`.
struct Hidden {
  at::Tensor states;
  at::Tensor beside = {};  // Parts::beside; undefined: nothing
};

// `input`: what Model::logits takes, or what the stage before gave.
Hidden run_stage(Parts& parts, const Stage& stage, const Hidden& input, const at::Tensor& targets, nn::Pass& pass);

}  // namespace hyperion::models

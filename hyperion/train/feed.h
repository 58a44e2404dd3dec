// Samples as tensors: what the step and the evaluation take.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "hyperion/data/cursor.h"
#include "hyperion/models/model.h"
#include "hyperion/strategy/context.h"
#include "hyperion/strategy/model_shape.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

// Token ids and the ones after them, int64 [rows, length] both, -100 for a target that does not count; or fp32 pixels
// [rows, channels, height, width] and int64 labels [rows], or with mixup and cutmix fp32 parts [rows, classes].
struct Batch {
  at::Tensor inputs, targets;
  // int32 [rows, length]: where in its row a token's document begins, as attention and positions begin there.
  // Undefined: rows are whole.
  at::Tensor segment_starts = {};
  at::Tensor lengths = {};            // int32 [rows]: tokens before a row's padding; undefined: there is no padding
  std::vector<int64_t> counted = {};  // targets that count, by row; empty: all
  int64_t documents = 0;              // of segment_starts, in any row at most
  uint64_t hash = 0;                  // of its samples, as data::Cursor's
  // Which tokens of each sample inputs and targets are, and what is counted; all else is of whole samples.
  strategy::TokenCut tokens = {};

  int64_t rows() const { return inputs.size(0); }
  // Every `of`-th row from `index` on. So the parts of a batch do not depend on how many processes share it: part i of
  // n on process r of p is part i * p + r of n * p.
  Batch part(int64_t index, int64_t of) const;
  int64_t counted_in_all() const { return counted_in_part(0, 1); }
  int64_t counted_in_part(int64_t index, int64_t of) const;
  int64_t rows_of_part(int64_t index, int64_t of) const { return (rows() - index + of - 1) / of; }
  // What the forward must know besides the inputs.
  void apply_to(nn::PassInputs& pass) const;

 private:
  void apply_segments(nn::PassInputs& pass) const;
};

// Of a batch of tokens those of the cut.
Batch own_tokens(const Batch& whole, const strategy::TokenCut& cut);

using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

// The data of a run, with samples of the size its model takes.
data::Split open_split(const RunConfig& config, const strategy::ModelShape& shape);

// Every count-th position, from this process's own on.
struct DataShard {
  int64_t rank = 0, count = 1;
};

// The training batches of a run, one after the other, read ahead by threads of its own. What comes out does not depend
// on their number. The split and config must outlive it.
class Feed {
 public:
  // `pinned`: in memory that a GPU copies from by itself.
  Feed(const data::Split& split, const RunConfig& config, data::Cursor start, DataShard share = {},
       bool pinned = false);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // train.batch samples over all processes: of each `share.count` positions this process's own. Throws what reading
  // threw; alone, Interrupted where a stop is asked for while it waits, and the cursor has not moved.
  Batch next();
  // After what next() has given. Its hash is that of this process's own samples, and so are the start's.
  const data::Cursor& cursor() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

// One batch read here and now, beginning at a position.
Batch batch_at(const data::Split& split, const RunConfig& config, int64_t position, DataShard share = {});

// Samples first .. first + count - 1 of the validation half, in their own order.
Batch validation_batch(const data::Split& split, int64_t first, int64_t count, const RunConfig& config);
int64_t validation_samples(const data::Split& split);

// Pixels take the compute type, channels last.
Batch to_device(const Batch& batch, at::Device device, at::ScalarType type);

// Throws ConfigError where the loss would count nothing, of all that validations read or of the first samples of
// training: an empty mean is no loss of 0.
void check_counted(const data::Split& split, const RunConfig& config);

// Throws ConfigError where the model cannot take these samples: tokens for images, another size, too few classes.
void check_fit(const data::Split& split, const strategy::ModelShape& shape, const RunConfig& config);

}  // namespace hyperion::train

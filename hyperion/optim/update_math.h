// The raw entry points of passes over all tensors of a model in one launch: the global norm, AdamW and SGD.
#pragma once
#include <cstdint>

#include "hyperion/optim/adamw_math.h"

namespace hyperion::optim {

// One tensor's arrays; what a pass has no use for is null.
struct UpdateEntry {
  float *master, *first, *second;
  void* weight;  // narrow copy of the master; null where the master is the weight
  const void* gradient;
  int64_t count;
  float decay;
  int32_t unused = 0;
};

// A block's part of the work: `chunk` of an entry, kUpdateChunk elements each.
struct UpdateChunk {
  int32_t entry, chunk;
};
constexpr int64_t kUpdateChunk = 16384;

struct UpdateTable {
  const UpdateEntry* entries;
  const UpdateChunk* chunks;
  int64_t count;  // of chunks
};

// Of fp16: what the loss is multiplied by, and whether the last step's gradients were too large to count.
struct LossScaleState {
  float scale;
  int32_t good;     // steps in a row since the scale last changed
  int32_t updates;  // steps that counted
  int32_t skipped;  // 1: the last step did not
};
constexpr float kMostLossScale = 0x1p40f;

// Half as much after an overflow, twice as much after `grow_after` good steps in a row.
constexpr void advance_loss_scale(LossScaleState& state, bool overflowed, int32_t grow_after) {
  state.skipped = overflowed ? 1 : 0;
  state.updates += overflowed ? 0 : 1;
  state.good = overflowed ? 0 : state.good + 1;
  if (overflowed) state.scale /= 2;
  if (state.good < grow_after) return;
  state.scale = state.scale < kMostLossScale / 2 ? 2 * state.scale : kMostLossScale;
  state.good = 0;
}

// What a step that may be recorded reads on the device, so that a replay finds its own.
template <class Numbers>
struct UpdateNumbers {
  const float* scale;  // gradients are multiplied by it
  const Numbers* numbers;
  const LossScaleState* state;  // where it says so, nothing is updated; null: everything counts
};
template <class Weight, class Gradient>
void adamw_all_gpu(const UpdateTable& table, const UpdateNumbers<AdamWNumbers>& numbers, void* stream);

struct SgdNumbers {
  float lr, momentum;
};
template <class Weight, class Gradient>
void sgd_all_gpu(const UpdateTable& table, const UpdateNumbers<SgdNumbers>& numbers, void* stream);

// partial[chunk] = the sum of squares of that chunk's gradients, each chunk's in a fixed order.
template <class Gradient>
void squares_all_gpu(const UpdateTable& table, float* partial, void* stream);
// norm = sqrt(sum of partial) / loss scale; scale = min(1, limit / norm) / loss scale, limit 0: no clipping.
struct ClipNumbers {
  float limit, loss_scale;
  LossScaleState* state;  // null, or: the scale is its, and it is told how the step went
  AdamWNumbers* numbers;  // null, or: their corrections become those of the state's updates
  int32_t grow_after;
};
void clip_factor_gpu(const float* partial, int64_t count, const ClipNumbers& numbers, float* norm, float* scale,
                     void* stream);

}  // namespace hyperion::optim

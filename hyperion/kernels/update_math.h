// The raw entry points of passes over all tensors of a model in one launch: the global norm, AdamW and SGD.
#pragma once
#include <cstdint>

#include "hyperion/kernels/adamw_math.h"

namespace hyperion::kernels {

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

// Numbers and scale lie on the device, so that a replayed graph reads those of its own step.
template <class Weight, class Gradient>
void adamw_all_gpu(const UpdateTable& table, const float* scale, const AdamWNumbers* numbers, void* stream);

struct SgdNumbers {
  float lr, momentum;
};
template <class Weight, class Gradient>
void sgd_all_gpu(const UpdateTable& table, const float* scale, const SgdNumbers* numbers, void* stream);

// partial[chunk] = the sum of squares of that chunk's gradients, each chunk's in a fixed order.
template <class Gradient>
void squares_all_gpu(const UpdateTable& table, float* partial, void* stream);
// norm = sqrt(sum of partial) / loss_scale; scale = min(1, limit / norm) / loss_scale, limit 0: no clipping.
void clip_factor_gpu(const float* partial, int64_t count, float limit, float loss_scale, float* norm, float* scale,
                     void* stream);

// out[i] = values[i], by a launch: no host memory to keep alive.
struct FewFloats {
  float value[16];
};
void set_floats_gpu(float* out, const FewFloats& values, int count, void* stream);

}  // namespace hyperion::kernels

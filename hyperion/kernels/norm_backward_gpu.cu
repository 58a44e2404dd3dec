// A block walks over rows, some of them at once, and reads ahead into shared memory; each thread keeps its own columns,
// and so adds up the gradients of weight and bias as it goes. A second pass adds up the blocks.
#include "hyperion/kernels/gpu_parts.h"
#include "hyperion/kernels/norm_math.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kMultiprocessors = 132;  // as many blocks as run at once, so that all end together
// By the 16-byte pieces a thread holds: the threads of a multiprocessor that have registers enough, and of a block.
#ifdef __HIPCC__
constexpr int kMostVectors = 2;  // 64 KiB of shared memory a block
constexpr int stages_of(int) { return 2; }
constexpr int threads_of(int) { return 256; }
constexpr int at_once(int) { return 512; }
#else
constexpr int kMostVectors = 4;
constexpr int stages_of(int vectors) { return vectors == 4 ? 2 : 3; }
constexpr int threads_of(int vectors) { return vectors == 1 ? 384 : vectors == 2 ? 320 : 512; }
constexpr int at_once(int vectors) { return vectors == 1 ? 768 : vectors == 2 ? 640 : 512; }
#endif
constexpr int64_t kParts = 3 * kMultiprocessors;

constexpr int sections_of(bool layer, bool sums) { return 1 + (layer ? 1 : 0) + (sums ? 1 : 0); }

// blockDim.y rows at once, blockDim.x threads each (whole warps), VECTORS 16-byte pieces a thread.
template <class T, int VECTORS, bool LAYER, bool SUMS>
__global__ void __launch_bounds__(threads_of(VECTORS), at_once(VECTORS) / threads_of(VECTORS))
    backward_rows(NormBackward<T> norm) {
  constexpr int kCount = kWide<T>, kStages = stages_of(VECTORS), kSections = sections_of(LAYER, SUMS);
  extern __shared__ Words room[];  // [stage][tensor][vector][thread]
  __shared__ float of_warps[2][2][threads_of(VECTORS) / kLanes];
  const int across = blockDim.x, threads = across * blockDim.y, thread = threadIdx.y * across + threadIdx.x;
  const int lane = thread % kLanes, warps = across / kLanes, pieces = static_cast<int>(norm.width / kCount);
  const int tensors = norm.residual == nullptr ? 2 : 3;
  const int64_t start = int64_t{blockIdx.x} * blockDim.y, step = int64_t{gridDim.x} * blockDim.y;
  const auto copy_of = [&](int stage, int tensor, int vector) {
    return &room[((stage * tensors + tensor) * VECTORS + vector) * threads + thread];
  };
  const auto fetch = [&](int stage, int64_t row) {
    if (row < norm.rows) {
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
        const int piece = v * across + threadIdx.x;
        if (piece >= pieces) continue;
        const int64_t at = row * norm.width + piece * kCount;
        copy_ahead(copy_of(stage, 0, v), norm.x + at);
        copy_ahead(copy_of(stage, 1, v), norm.dy + at);
        if (tensors == 3) copy_ahead(copy_of(stage, 2, v), norm.residual + at);
      }
    }
    close_copies();
  };

  Words weights[VECTORS];
  float totals[VECTORS][kSections][kCount];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int piece = v * across + threadIdx.x;
    weights[v] = piece < pieces ? load_words(norm.weight + piece * kCount) : Words{{0, 0, 0, 0}};
#pragma unroll
    for (int s = 0; s < kSections; ++s)
#pragma unroll
      for (int i = 0; i < kCount; ++i) totals[v][s][i] = 0;
  }
  const float share = 1.0f / static_cast<float>(norm.width);
  int64_t row = start + threadIdx.y;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch(s, row + s * step);
  float next_mean = 0, next_inverse = 0;
  const auto look_up = [&](int64_t of) {
    if (of >= norm.rows) return;
    if constexpr (LAYER) next_mean = norm.mean[of];
    next_inverse = norm.inverse[of];
  };
  look_up(row);
  int stage = 0, turn = 0;
  for (int64_t base = start; base < norm.rows; base += step, row += step, turn ^= 1) {
    fetch(stage == 0 ? kStages - 1 : stage - 1, row + (kStages - 1) * step);
    const float mean = next_mean, inverse = next_inverse;
    look_up(row + step);
    wait_for_copies<kStages - 1>();
    const bool here = row < norm.rows;
    float level = 0, along = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      if (!here || v * across + static_cast<int>(threadIdx.x) >= pieces) continue;
      float x[kCount], dy[kCount], weight[kCount];
      to_floats<T>(*copy_of(stage, 0, v), x);
      to_floats<T>(*copy_of(stage, 1, v), dy);
      to_floats<T>(weights[v], weight);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float normal = LAYER ? (x[i] - mean) * inverse : x[i] * inverse, weighted = dy[i] * weight[i];
        totals[v][0][i] += dy[i] * normal;
        along += weighted * normal;
        if constexpr (LAYER) {
          totals[v][1][i] += dy[i];
          level += weighted;
        }
      }
    }
    along = warp_sum(along);
    if constexpr (LAYER) level = warp_sum(level);
    if (warps > 1) {  // two places in turn: one barrier a row is enough
      const int first = static_cast<int>(threadIdx.y) * warps;
      if (lane == 0) {
        of_warps[turn][0][thread / kLanes] = along;
        if constexpr (LAYER) of_warps[turn][1][thread / kLanes] = level;
      }
      __syncthreads();
      along = warp_sum(lane < warps ? of_warps[turn][0][first + lane] : 0.0f);
      if constexpr (LAYER) level = warp_sum(lane < warps ? of_warps[turn][1][first + lane] : 0.0f);
    }
    along *= share, level *= share;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      const int piece = v * across + threadIdx.x;
      if (!here || piece >= pieces) continue;
      const int64_t at = row * norm.width + piece * kCount;
      float x[kCount], dy[kCount], weight[kCount];
      to_floats<T>(*copy_of(stage, 0, v), x);
      to_floats<T>(*copy_of(stage, 1, v), dy);
      to_floats<T>(weights[v], weight);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        x[i] = LAYER ? (x[i] - mean) * inverse : x[i] * inverse;
        dy[i] = inverse * (dy[i] * weight[i] - level - x[i] * along);
      }
      if (tensors == 3) {
        float residual[kCount];
        to_floats<T>(*copy_of(stage, 2, v), residual);
#pragma unroll
        for (int i = 0; i < kCount; ++i) dy[i] += residual[i];
      }
      if constexpr (SUMS) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) totals[v][kSections - 1][i] += dy[i];
      }
      store_floats(norm.dx + at, dy);
      if (norm.y == nullptr) continue;
      if constexpr (LAYER) load_floats(norm.bias + piece * kCount, dy);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = LAYER ? x[i] * weight[i] + dy[i] : x[i] * weight[i];
      store_floats(norm.y + at, x);
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }

  // The rows at once meet in shared memory, then the block's part is written.
  __syncthreads();
  float* meeting = reinterpret_cast<float*>(room);  // [section][row at once][column]
  const int columns = across * VECTORS * kCount;
#pragma unroll
  for (int s = 0; s < kSections; ++s)
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        meeting[(s * blockDim.y + threadIdx.y) * columns + (v * across + threadIdx.x) * kCount + i] = totals[v][s][i];
  __syncthreads();
  const int width = static_cast<int>(norm.width);
  float* part = norm.partial + int64_t{blockIdx.x} * kSections * width;
#pragma unroll
  for (int s = 0; s < kSections; ++s)
    for (int column = thread; column < width; column += threads) {
      float sum = 0;
      for (unsigned y = 0; y < blockDim.y; ++y) sum += meeting[(s * blockDim.y + y) * columns + column];
      part[s * width + column] = sum;
    }
}

// Any width: a block walks over rows; its sums gather in its own part of `partial`.
template <class T, bool LAYER, bool SUMS>
__global__ void backward_any(NormBackward<T> norm) {
  constexpr int kSections = sections_of(LAYER, SUMS);
  float* part = norm.partial + int64_t{blockIdx.x} * kSections * norm.width;
  for (int64_t i = threadIdx.x; i < kSections * norm.width; i += blockDim.x) part[i] = 0;
  __syncthreads();
  const float share = 1.0f / static_cast<float>(norm.width);
  for (int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const float mean = LAYER ? norm.mean[row] : 0.0f, inverse = norm.inverse[row];
    const int64_t start = row * norm.width;
    float sums[2] = {0, 0};
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
      const float gradient = to_float(norm.dy[start + i]), weighted = gradient * to_float(norm.weight[i]);
      const float normal = (to_float(norm.x[start + i]) - mean) * inverse;
      sums[0] += weighted;
      sums[1] += weighted * normal;
      part[i] += gradient * normal;
      if constexpr (LAYER) part[norm.width + i] += gradient;
    }
    block_sums(sums);
    const float level = LAYER ? sums[0] * share : 0.0f, along = sums[1] * share;
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
      const float weight = to_float(norm.weight[i]);
      const float normal = (to_float(norm.x[start + i]) - mean) * inverse;
      const float residual = norm.residual == nullptr ? 0.0f : to_float(norm.residual[start + i]);
      const float out = residual + inverse * (to_float(norm.dy[start + i]) * weight - level - normal * along);
      store(norm.dx[start + i], out);
      if constexpr (SUMS) part[(kSections - 1) * norm.width + i] += out;
      if (norm.y != nullptr) store(norm.y[start + i], normal * weight + (LAYER ? to_float(norm.bias[i]) : 0.0f));
    }
  }
}

// Blocks launched: as many parts to add up.
template <class T, bool LAYER, bool SUMS, int VECTORS>
int64_t launch_rows(const NormBackward<T>& norm, GpuStream stream) {
  const int64_t pieces = norm.width / kWide<T>;
  const int64_t across = (pieces + VECTORS * kLanes - 1) / (VECTORS * kLanes) * kLanes,
                down = threads_of(VECTORS) / across, needed = (norm.rows + down - 1) / down;
  const int64_t each = at_once(VECTORS) / (across * down), most = kMultiprocessors * (each < 3 ? each : 3);
  const int64_t blocks = needed < most ? needed : most;
  const int tensors = norm.residual == nullptr ? 2 : 3;
  const size_t ahead = sizeof(Words) * stages_of(VECTORS) * tensors * VECTORS,
               meeting = sizeof(float) * sections_of(LAYER, SUMS) * VECTORS * kWide<T>;
  const size_t bytes = static_cast<size_t>(across * down) * (ahead > meeting ? ahead : meeting);
  const auto kernel = backward_rows<T, VECTORS, LAYER, SUMS>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
  const dim3 threads(static_cast<unsigned>(across), static_cast<unsigned>(down));
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(norm);
  return blocks;
}

template <class T, bool LAYER, bool SUMS>
void backward_as(const NormBackward<T>& norm, GpuStream stream) {
  const bool whole = norm.width % kWide<T> == 0 && aligned(norm.x) && aligned(norm.weight) && aligned(norm.dy) &&
                     aligned(norm.residual) && aligned(norm.dx) && aligned(norm.y) && aligned(norm.bias);
  const int64_t pieces = norm.width / kWide<T>;
  int64_t parts = norm_backward_parts(norm.rows);
  if (whole && pieces <= threads_of(1)) {
    parts = launch_rows<T, LAYER, SUMS, 1>(norm, stream);
  } else if (whole && pieces <= 2 * threads_of(2)) {
    parts = launch_rows<T, LAYER, SUMS, 2>(norm, stream);
  } else if (whole && pieces <= kMostVectors * threads_of(kMostVectors)) {
    parts = launch_rows<T, LAYER, SUMS, kMostVectors>(norm, stream);
  } else {
    backward_any<T, LAYER, SUMS><<<static_cast<unsigned>(parts), 256, 0, stream>>>(norm);
  }
  check_launch("norm_backward");
  PartSums<T> sums{norm.partial, parts, sections_of(LAYER, SUMS), norm.width, {norm.dweight, nullptr, nullptr}};
  if (LAYER) sums.out[1] = norm.dbias;
  if (SUMS) sums.out[LAYER ? 2 : 1] = norm.dx_sums;
  add_parts(sums, stream);
}

template <class T, bool LAYER>
void backward_with(const NormBackward<T>& norm, GpuStream stream) {
  norm.dx_sums != nullptr ? backward_as<T, LAYER, true>(norm, stream) : backward_as<T, LAYER, false>(norm, stream);
}

}  // namespace

int64_t norm_backward_parts(int64_t rows) { return rows < 1 ? 1 : rows < kParts ? rows : kParts; }

template <class T>
void norm_backward_gpu(const NormBackward<T>& norm, void* stream) {
  if (norm.rows == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  norm.mean != nullptr ? backward_with<T, true>(norm, queue) : backward_with<T, false>(norm, queue);
}

template void norm_backward_gpu(const NormBackward<float>&, void*);
template void norm_backward_gpu(const NormBackward<Bfloat16>&, void*);
template void norm_backward_gpu(const NormBackward<Half>&, void*);

}  // namespace hyperion::kernels

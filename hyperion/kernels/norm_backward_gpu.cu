// A block walks over rows, some of them at once, and reads ahead into shared memory; each thread keeps its own columns,
// and so adds up the gradients of weight and bias as it goes. A second pass adds up the blocks.
#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/norm_math.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kMostRows = 15;  // at once: each has a barrier of its own

// Blocks: one a multiprocessor, so that all end together; of AMD's small ones two.
int64_t most_parts() {
  constexpr int64_t kEach =
#ifdef __HIPCC__
      2;
#else
      1;
#endif
  return kEach * gpu_limits().multiprocessors;
}

constexpr int sections_of(bool layer, bool sums) { return 1 + (layer ? 1 : 0) + (sums ? 1 : 0); }

// Waits for the `threads` threads of one of a block's rows.
__device__ inline void meet_row([[maybe_unused]] int row, [[maybe_unused]] int threads) {
#if defined(__CUDA_ARCH__)
  asm volatile("bar.sync %0, %1;" ::"r"(row + 1), "r"(threads) : "memory");
#else
  __syncthreads();  // all rows take as many turns
#endif
}

// How a block is laid out: 16-byte pieces a thread holds, threads, and rows read ahead with the one at work.
template <int VECTORS, int THREADS, int STAGES>
struct Layout {
  static constexpr int kVectors = VECTORS, kThreads = THREADS, kStages = STAGES;
};

// A thread's share of a block's rows: blockDim.y rows at once, blockDim.x threads each (whole warps).
//
// The pass is bound by memory, so each byte is read once, and early: while a row is at work, copies of the next
// kStages - 1 are on their way into shared memory, which takes no registers. Columns stay with their thread, so that
// the gradients of weight and bias need no exchange but one at the end, in `totals`; a row's own two sums need one
// each, over its warps. What these sums were made of is wanted again after them: kept as floats where there are
// registers, else read from shared memory a second time.
template <class T, class LAYOUT, bool LAYER, bool SUMS>
struct RowsAtOnce {
  static constexpr int kCount = kWide<T>, kSections = sections_of(LAYER, SUMS);
  static constexpr int kVectors = LAYOUT::kVectors;
  static constexpr bool kKeep = 65536 / LAYOUT::kThreads >= 40 + kVectors * (kCount * (kSections + 2) + 4);
  using Floats = float[kCount];

  const NormBackward<T>& norm;
  Words* room;  // [stage][tensor][vector][thread]
  int across, threads, thread, pieces, tensors;
  float share;
  Words weights[kVectors];
  float totals[kVectors][kSections][kCount];
  float next_mean = 0, next_inverse = 0;
  // Of the row at work.
  int stage = 0;
  float inverse = 0, offset = 0;
  float normals[kKeep ? kVectors : 1][kCount], weighteds[kKeep ? kVectors : 1][kCount];

  __device__ RowsAtOnce(const NormBackward<T>& norm, Words* room)
      : norm(norm),
        room(room),
        across(blockDim.x),
        threads(across * blockDim.y),
        thread(threadIdx.y * across + threadIdx.x),
        pieces(static_cast<int>(norm.width / kCount)),
        tensors(norm.residual == nullptr ? 2 : 3),
        share(1.0f / static_cast<float>(norm.width)) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = piece_of(v) < pieces ? load_words(norm.weight + piece_of(v) * kCount) : Words{{0, 0, 0, 0}};
#pragma unroll
      for (int s = 0; s < kSections; ++s)
#pragma unroll
        for (int i = 0; i < kCount; ++i) totals[v][s][i] = 0;
    }
  }

  __device__ int piece_of(int vector) const { return vector * across + static_cast<int>(threadIdx.x); }
  __device__ Words* copy_of(int stage, int tensor, int vector) const {
    return &room[((stage * tensors + tensor) * kVectors + vector) * threads + thread];
  }

  __device__ void fetch(int stage, int64_t row) const {
    if (row < norm.rows) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (piece_of(v) >= pieces) continue;
        const int64_t at = row * norm.width + piece_of(v) * kCount;
        copy_ahead(copy_of(stage, 0, v), norm.x + at);
        copy_ahead(copy_of(stage, 1, v), norm.dy + at);
        if (tensors == 3) copy_ahead(copy_of(stage, 2, v), norm.residual + at);
      }
    }
    close_copies();
  }
  __device__ void look_up(int64_t row) {
    if (row >= norm.rows) return;
    if constexpr (LAYER) next_mean = norm.mean[row];
    next_inverse = norm.inverse[row];
  }

  // The normal values, and the gradients times the weights.
  __device__ void read(int v, Floats& normal, Floats& dy, Floats& weighted) const {
    to_floats<T>(*copy_of(stage, 0, v), normal);
    to_floats<T>(*copy_of(stage, 1, v), dy);
    to_floats<T>(weights[v], weighted);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      normal[i] = LAYER ? fmaf(normal[i], inverse, offset) : normal[i] * inverse;
      weighted[i] *= dy[i];
    }
  }

  // What the row's gradient has along its normal values and, of layer norms, at all: sums over the row.
  struct Sums {
    float along = 0, level = 0;
  };
  __device__ Sums sum_up(bool here) {
    Sums sums;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!here || piece_of(v) >= pieces) continue;
      auto &normal = normals[kKeep ? v : 0], &weighted = weighteds[kKeep ? v : 0];
      float dy[kCount];
      read(v, normal, dy, weighted);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        totals[v][0][i] += dy[i] * normal[i];
        sums.along += weighted[i] * normal[i];
        if constexpr (LAYER) {
          totals[v][1][i] += dy[i];
          sums.level += weighted[i];
        }
      }
    }
    return sums;
  }
  // of_warps: two places in turn, so that one barrier a row is enough.
  __device__ Sums over_warps(Sums sums, float2* of_warps) const {
    sums.along = warp_sum(sums.along);
    if constexpr (LAYER) sums.level = warp_sum(sums.level);
    const int warps = across / kLanes;
    if (warps == 1) return sums;
    if (thread % kLanes == 0) of_warps[thread / kLanes] = {sums.along, sums.level};
    meet_row(static_cast<int>(threadIdx.y), across);
    sums = {};
#pragma unroll 4
    for (int warp = 0; warp < warps; ++warp) {
      const float2 found = of_warps[static_cast<int>(threadIdx.y) * warps + warp];
      sums.along += found.x;
      if constexpr (LAYER) sums.level += found.y;
    }
    return sums;
  }

  __device__ void write(int64_t row, const Sums& sums) {
    const float of_normal = -sums.along * share * inverse, rest = LAYER ? -sums.level * share * inverse : 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (row >= norm.rows || piece_of(v) >= pieces) continue;
      const int64_t at = row * norm.width + piece_of(v) * kCount;
      auto &normal = normals[kKeep ? v : 0], &weighted = weighteds[kKeep ? v : 0];
      float dx[kCount];
      if constexpr (!kKeep) read(v, normal, dx, weighted);
#pragma unroll
      for (int i = 0; i < kCount; ++i) dx[i] = fmaf(weighted[i], inverse, fmaf(normal[i], of_normal, rest));
      if (tensors == 3) {
        float residual[kCount];
        to_floats<T>(*copy_of(stage, 2, v), residual);
#pragma unroll
        for (int i = 0; i < kCount; ++i) dx[i] += residual[i];
      }
      if constexpr (SUMS) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) totals[v][kSections - 1][i] += dx[i];
      }
      store_floats(norm.dx + at, dx);
      if (norm.y != nullptr) write_again(at, v, normal, dx);
    }
  }
  // What the norm gave forward; `other` is free.
  __device__ void write_again(int64_t at, int v, const Floats& normal, Floats& other) const {
    float weight[kCount];
    to_floats<T>(weights[v], weight);
    if constexpr (LAYER) load_floats(norm.bias + piece_of(v) * kCount, other);
#pragma unroll
    for (int i = 0; i < kCount; ++i) other[i] = LAYER ? fmaf(normal[i], weight[i], other[i]) : normal[i] * weight[i];
    store_floats(norm.y + at, other);
  }

  // The rows at once meet in shared memory, then the block's part is written.
  __device__ void write_totals() const {
    __syncthreads();
    float* meeting = reinterpret_cast<float*>(room);  // [section][row at once][column]
    const int columns = across * kVectors * kCount;
#pragma unroll
    for (int s = 0; s < kSections; ++s)
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          meeting[(s * blockDim.y + threadIdx.y) * columns + piece_of(v) * kCount + i] = totals[v][s][i];
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
};

template <class T, class LAYOUT, bool LAYER, bool SUMS>
__global__ void __launch_bounds__(LAYOUT::kThreads, 1) backward_rows(NormBackward<T> norm) {
  constexpr int kStages = LAYOUT::kStages;
  extern __shared__ Words room[];
  let_next_begin();
  __shared__ float2 of_warps[2][LAYOUT::kThreads / kLanes];
  RowsAtOnce<T, LAYOUT, LAYER, SUMS> rows(norm, room);
  const int64_t start = int64_t{blockIdx.x} * blockDim.y, step = int64_t{gridDim.x} * blockDim.y;
  int64_t row = start + threadIdx.y;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) rows.fetch(s, row + s * step);
  rows.look_up(row);
  int turn = 0;
  for (int64_t base = start; base < norm.rows; base += step, row += step, turn ^= 1) {
    rows.fetch(rows.stage == 0 ? kStages - 1 : rows.stage - 1, row + (kStages - 1) * step);
    rows.inverse = rows.next_inverse;
    rows.offset = LAYER ? -rows.next_mean * rows.inverse : 0.0f;
    rows.look_up(row + step);
    wait_for_copies<kStages - 1>();
    const auto sums = rows.over_warps(rows.sum_up(row < norm.rows), of_warps[turn]);
    rows.write(row, sums);
    rows.stage = rows.stage == kStages - 1 ? 0 : rows.stage + 1;
  }
  rows.write_totals();
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

// How a block of this layout takes rows so wide: threads across, rows at once, shared memory. Rows at once are as many
// as threads and the device's shared memory hold; none where not one fits.
struct Block {
  int64_t across, rows;
  size_t bytes;
};
template <class LAYOUT, bool LAYER, bool SUMS, class T>
Block block_of(const NormBackward<T>& norm) {
  constexpr int kVectors = LAYOUT::kVectors;
  const int64_t pieces = norm.width / kWide<T>, fit = kVectors * kLanes;
  const int64_t across = (pieces + fit - 1) / fit * kLanes;
  const int tensors = norm.residual == nullptr ? 2 : 3;
  const size_t ahead = sizeof(Words) * LAYOUT::kStages * tensors * kVectors,
               meeting = sizeof(float) * sections_of(LAYER, SUMS) * kVectors * kWide<T>,
               row = static_cast<size_t>(across) * (ahead > meeting ? ahead : meeting);
  const size_t own = sizeof(float2) * 2 * LAYOUT::kThreads / kLanes, limit = gpu_limits().shared_bytes - own;
  int64_t rows = LAYOUT::kThreads / across;
  if (rows > kMostRows) rows = kMostRows;
  if (static_cast<size_t>(rows) * row > limit) rows = static_cast<int64_t>(limit / row);
  return {across, rows, static_cast<size_t>(rows) * row};
}

// Blocks launched: as many parts to add up; 0 where the layout does not fit.
template <class LAYOUT, bool LAYER, bool SUMS, class T>
int64_t launch_rows(const NormBackward<T>& norm, GpuStream stream) {
  const Block block = block_of<LAYOUT, LAYER, SUMS>(norm);
  if (block.rows == 0) return 0;
  const int64_t needed = (norm.rows + block.rows - 1) / block.rows, most = most_parts();
  const int64_t blocks = needed < most ? needed : most;
  const auto kernel = backward_rows<T, LAYOUT, LAYER, SUMS>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), block.bytes);
  const dim3 threads(static_cast<unsigned>(block.across), static_cast<unsigned>(block.rows));
  kernel<<<static_cast<unsigned>(blocks), threads, block.bytes, stream>>>(norm);
  return blocks;
}

// Layouts by a row's pieces, as they were measured to be fastest on an H200. 0: no layout takes rows so wide here.
template <bool LAYER, bool SUMS, class T>
int64_t launch_by_width(const NormBackward<T>& norm, int64_t pieces, GpuStream stream) {
#ifdef __HIPCC__  // 64 KiB of shared memory a block
  if (pieces <= 256) return launch_rows<Layout<1, 256, 2>, LAYER, SUMS>(norm, stream);
  return pieces <= 512 ? launch_rows<Layout<2, 256, 2>, LAYER, SUMS>(norm, stream) : 0;
#else
  if (pieces <= 128) return launch_rows<Layout<1, 768, 3>, LAYER, SUMS>(norm, stream);
  if (pieces > 512 && pieces <= 640) return launch_rows<Layout<2, 640, 3>, LAYER, SUMS>(norm, stream);  // two rows
  if (pieces <= 1024) return launch_rows<Layout<2, 512, 3>, LAYER, SUMS>(norm, stream);
  return pieces <= 1536 ? launch_rows<Layout<4, 384, 3>, LAYER, SUMS>(norm, stream) : 0;
#endif
}

template <class T, bool LAYER, bool SUMS>
int64_t backward_as(const NormBackward<T>& norm, GpuStream stream) {
  const bool whole = norm.width % kWide<T> == 0 && aligned(norm.x) && aligned(norm.weight) && aligned(norm.dy) &&
                     aligned(norm.residual) && aligned(norm.dx) && aligned(norm.y) && aligned(norm.bias);
  const int64_t pieces = norm.width / kWide<T>;
  int64_t parts = whole ? launch_by_width<LAYER, SUMS>(norm, pieces, stream) : 0;
  if (parts == 0) {
    parts = norm_backward_parts(norm.rows);
    backward_any<T, LAYER, SUMS><<<static_cast<unsigned>(parts), 256, 0, stream>>>(norm);
  }
  check_launch("norm_backward");
  return parts;
}

template <class T, bool LAYER>
int64_t backward_with(const NormBackward<T>& norm, GpuStream stream) {
  return norm.with_sums ? backward_as<T, LAYER, true>(norm, stream) : backward_as<T, LAYER, false>(norm, stream);
}

}  // namespace

int64_t norm_backward_parts(int64_t rows) {
  const int64_t most = most_parts();
  return rows < 1 ? 1 : rows < most ? rows : most;
}

template <class T>
int64_t norm_backward_gpu(const NormBackward<T>& norm, void* stream) {
  if (norm.rows == 0) return 0;
  const auto queue = static_cast<GpuStream>(stream);
  return norm.mean != nullptr ? backward_with<T, true>(norm, queue) : backward_with<T, false>(norm, queue);
}

template int64_t norm_backward_gpu(const NormBackward<float>&, void*);
template int64_t norm_backward_gpu(const NormBackward<Bfloat16>&, void*);
template int64_t norm_backward_gpu(const NormBackward<Half>&, void*);

}  // namespace hyperion::kernels

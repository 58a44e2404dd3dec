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

// blockDim.y rows at once, blockDim.x threads each (whole warps).
template <class T, class LAYOUT, bool LAYER, bool SUMS>
__global__ void __launch_bounds__(LAYOUT::kThreads, 1) backward_rows(NormBackward<T> norm) {
  constexpr int kCount = kWide<T>, kSections = sections_of(LAYER, SUMS);
  constexpr int kVectors = LAYOUT::kVectors, kStages = LAYOUT::kStages;
  // What a row's sums are made of is wanted again after them: kept as floats where there are registers, else read
  // twice.
  constexpr bool kKeep = 65536 / LAYOUT::kThreads >= 40 + kVectors * (kCount * (kSections + 2) + 4);
  extern __shared__ Words room[];  // [stage][tensor][vector][thread]
  let_next_begin();
  __shared__ float2 of_warps[2][LAYOUT::kThreads / kLanes];
  const int across = blockDim.x, threads = across * blockDim.y, thread = threadIdx.y * across + threadIdx.x;
  const int lane = thread % kLanes, warps = across / kLanes, pieces = static_cast<int>(norm.width / kCount);
  const int tensors = norm.residual == nullptr ? 2 : 3;
  const int64_t start = int64_t{blockIdx.x} * blockDim.y, step = int64_t{gridDim.x} * blockDim.y;
  const auto copy_of = [&](int stage, int tensor, int vector) {
    return &room[((stage * tensors + tensor) * kVectors + vector) * threads + thread];
  };
  const auto fetch = [&](int stage, int64_t row) {
    if (row < norm.rows) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
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

  Words weights[kVectors];
  float totals[kVectors][kSections][kCount];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
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
    const float inverse = next_inverse, offset = LAYER ? -next_mean * inverse : 0.0f;
    look_up(row + step);
    wait_for_copies<kStages - 1>();
    const bool here = row < norm.rows;
    // The normal values, and the gradients times the weights.
    const auto read = [&](int v, float(&normal)[kCount], float(&dy)[kCount], float(&weighted)[kCount]) {
      to_floats<T>(*copy_of(stage, 0, v), normal);
      to_floats<T>(*copy_of(stage, 1, v), dy);
      to_floats<T>(weights[v], weighted);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        normal[i] = LAYER ? fmaf(normal[i], inverse, offset) : normal[i] * inverse;
        weighted[i] *= dy[i];
      }
    };
    float normals[kKeep ? kVectors : 1][kCount], weighteds[kKeep ? kVectors : 1][kCount];
    float level = 0, along = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!here || v * across + static_cast<int>(threadIdx.x) >= pieces) continue;
      auto &normal = normals[kKeep ? v : 0], &weighted = weighteds[kKeep ? v : 0];
      float dy[kCount];
      read(v, normal, dy, weighted);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        totals[v][0][i] += dy[i] * normal[i];
        along += weighted[i] * normal[i];
        if constexpr (LAYER) {
          totals[v][1][i] += dy[i];
          level += weighted[i];
        }
      }
    }
    along = warp_sum(along);
    if constexpr (LAYER) level = warp_sum(level);
    if (warps > 1) {  // two places in turn: one barrier a row is enough
      if (lane == 0) of_warps[turn][thread / kLanes] = {along, level};
      meet_row(static_cast<int>(threadIdx.y), across);
      along = level = 0;
#pragma unroll 4
      for (int warp = 0; warp < warps; ++warp) {
        const float2 sums = of_warps[turn][static_cast<int>(threadIdx.y) * warps + warp];
        along += sums.x;
        if constexpr (LAYER) level += sums.y;
      }
    }
    const float of_normal = -along * share * inverse, rest = LAYER ? -level * share * inverse : 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int piece = v * across + threadIdx.x;
      if (!here || piece >= pieces) continue;
      const int64_t at = row * norm.width + piece * kCount;
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
      if (norm.y == nullptr) continue;
      float weight[kCount];
      to_floats<T>(weights[v], weight);
      if constexpr (LAYER) load_floats(norm.bias + piece * kCount, dx);
#pragma unroll
      for (int i = 0; i < kCount; ++i) dx[i] = LAYER ? fmaf(normal[i], weight[i], dx[i]) : normal[i] * weight[i];
      store_floats(norm.y + at, dx);
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }

  // The rows at once meet in shared memory, then the block's part is written.
  __syncthreads();
  float* meeting = reinterpret_cast<float*>(room);  // [section][row at once][column]
  const int columns = across * kVectors * kCount;
#pragma unroll
  for (int s = 0; s < kSections; ++s)
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
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

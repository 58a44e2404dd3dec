#include "hyperion/blocks/attention_parts_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::blocks {
namespace {

using namespace kernels;

constexpr int kThreads = 256, kAtOnce = 4;  // elements of a lane: 16 bytes of the output, 8 or 16 of the part

template <class T>
__device__ inline void load_part(const T* from, float (&out)[kAtOnce]) {
  if constexpr (sizeof(T) == 4) {
    load_floats(from, out);
  } else {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    out[0] = widen(raw.x & 0xffffu, T{}), out[1] = widen(raw.x >> 16, T{});
    out[2] = widen(raw.y & 0xffffu, T{}), out[3] = widen(raw.y >> 16, T{});
  }
}

// A row is `lanes` neighbours' of a warp, so that all of them have read its sums before the first writes.
template <class T, bool WHOLE>
__global__ void __launch_bounds__(kThreads) merge_kernel(MergeParts<T> parts, int lanes) {
  const int lane = threadIdx.x % lanes;
  const int64_t rows = parts.rows(), here = kThreads / lanes;
  for (int64_t first = blockIdx.x * here; first < rows; first += gridDim.x * here) {
    const int64_t row = first + threadIdx.x / lanes;
    const bool there = row < rows;
    const auto at = [&](const RowStrides& strides) { return offset_of(strides, row, parts.heads, parts.queries); };
    MergedRow merged{};
    if (there) {
      merged = merged_row(
          parts.sums[at(parts.of_sums)], parts.more_sums[at(parts.of_more_sums)], [](float x) { return expf(x); },
          [](float x) { return log1pf(x); });
      float* output = parts.output + at(parts.of_output);
      const T* more = parts.more + at(parts.of_more);
      if constexpr (WHOLE) {
        for (int64_t i = lane * kAtOnce; i < parts.width; i += lanes * kAtOnce) {
          float own[kAtOnce], other[kAtOnce];
          load_floats(output + i, own);
          load_part(more + i, other);
#pragma unroll
          for (int k = 0; k < kAtOnce; ++k) own[k] = merged.own * own[k] + merged.more * other[k];
          store_floats(output + i, own);
        }
      } else {
        for (int64_t i = lane; i < parts.width; i += lanes)
          output[i] = merged.own * output[i] + merged.more * to_float(more[i]);
      }
    }
    meet_warp();
    if (there && lane == 0) parts.sums[at(parts.of_sums)] = merged.sum;
  }
}

bool in_pieces(const RowStrides& strides) {
  return strides.batch % kAtOnce == 0 && strides.head % kAtOnce == 0 && strides.query % kAtOnce == 0;
}

}  // namespace

template <class T>
void merge_parts_gpu(const MergeParts<T>& parts, void* stream) {
  if (parts.rows() == 0 || parts.width == 0) return;
  const bool whole = parts.width % kAtOnce == 0 && in_pieces(parts.of_output) && in_pieces(parts.of_more) &&
                     aligned(parts.output) && reinterpret_cast<uintptr_t>(parts.more) % (kAtOnce * sizeof(T)) == 0;
  int lanes = kLanes;
  while (lanes > 1 && lanes / 2 * (whole ? kAtOnce : 1) >= parts.width) lanes /= 2;
  const int64_t blocks = (parts.rows() * lanes + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < (int64_t{1} << 20) ? blocks : int64_t{1} << 20);
  const auto kernel = whole ? merge_kernel<T, true> : merge_kernel<T, false>;
  kernel<<<grid, kThreads, 0, static_cast<GpuStream>(stream)>>>(parts, lanes);
  check_launch("merge_parts");
}

template void merge_parts_gpu(const MergeParts<float>&, void*);
template void merge_parts_gpu(const MergeParts<Bfloat16>&, void*);
template void merge_parts_gpu(const MergeParts<Half>&, void*);

}  // namespace hyperion::blocks

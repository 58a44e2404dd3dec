// A block a row: once for maximum and sum together, and for gradients in place once more, from the cache.
#include "hyperion/kernels/cross_entropy_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 512, kBatch = 4;  // kBatch: 16-byte pieces a thread has under way together
constexpr int kOfBlock = 256;              // threads of the backward, kBatch pieces each
constexpr float kPerNatural = 1.442695041f;

// A row by where 16 bytes divide its addresses: some elements before, pieces, some elements after.
template <class T>
struct Cut {
  int before, after;  // elements, less than a piece each
  int64_t pieces;
  __device__ Cut(const T* row, int64_t classes) {
    const auto off = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
    const int64_t to_next = off == 0 ? 0 : kWide<T> - off;
    before = static_cast<int>(to_next < classes ? to_next : classes);
    pieces = (classes - before) / kWide<T>;
    after = static_cast<int>(classes - before - pieces * kWide<T>);
  }
  // The element outside the pieces that is this thread's, or -1.
  __device__ int64_t single() const {
    const int thread = threadIdx.x;
    if (thread < before) return thread;
    return thread < before + after ? pieces * kWide<T> + thread : -1;
  }
};

// A maximum and the sum of exponentials below it.
struct Peak {
  float top = -3.4e38f, sum = 0;  // finite, so that a logit of -inf adds nothing
  __device__ void raise(float to) {
    if (to <= top) return;
    sum *= quick_exp2((top - to) * kPerNatural);
    top = to;
  }
  __device__ void add(float value) { sum += quick_exp2((value - top) * kPerNatural); }
};

template <class T>
__device__ inline Peak peak_of(const T* logits, const Cut<T>& cut) {
  Peak mine;
  const T* first = logits + cut.before;
  for (int64_t piece = threadIdx.x; piece < cut.pieces; piece += kBatch * int64_t{blockDim.x}) {
    Words batch[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (piece + k * blockDim.x < cut.pieces) batch[k] = load_streamed(first + (piece + k * blockDim.x) * kWide<T>);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (piece + k * blockDim.x >= cut.pieces) continue;
      float values[kWide<T>];
      to_floats<T>(batch[k], values);
      float top = values[0];
#pragma unroll
      for (int i = 1; i < kWide<T>; ++i) top = fmaxf(top, values[i]);
      mine.raise(top);
#pragma unroll
      for (int i = 0; i < kWide<T>; ++i) mine.add(values[i]);
    }
  }
  if (const int64_t at = cut.single(); at >= 0) {
    const float value = to_float(logits[at]);
    mine.raise(value);
    mine.add(value);
  }
  return mine;
}

// p - (1 at the target), all by `scale`; `share` is 1 / the sum of exponentials.
struct Gradient {
  float top, share, scale;
  int64_t target;
  __device__ float operator()(float logit, int64_t at) const {
    const float chance = quick_exp2((logit - top) * kPerNatural) * share;
    return (at == target ? chance - 1.0f : chance) * scale;
  }
};

template <class T>
__device__ inline void write_gradient(T* to, int64_t at, const Words& words, const Gradient& of) {
  float values[kWide<T>];
  to_floats<T>(words, values);
#pragma unroll
  for (int i = 0; i < kWide<T>; ++i) values[i] = of(values[i], at + i);
  store_floats(to + at, values);
}

template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(CrossEntropyRows<T> r) {
  const int64_t row = blockIdx.x, target = r.targets[row];
  T* logits = r.logits + row * r.classes;
  if (target == r.ignored) {
    if (threadIdx.x == 0) r.losses[row] = 0;
    if (!r.gradients) return;
    for (int64_t i = threadIdx.x; i < r.classes; i += blockDim.x) store(logits[i], 0.0f);
    return;
  }
  const float at_target = target >= 0 && target < r.classes ? to_float(logits[target]) : NAN;
  const Cut<T> cut(logits, r.classes);
  const Peak mine = peak_of(logits, cut);
  const float top = block_max(mine.top);
  float sum[1] = {mine.sum * quick_exp2((mine.top - top) * kPerNatural)};
  block_sums(sum);
  if (threadIdx.x == 0) {
    r.losses[row] = top + logf(sum[0]) - at_target;
    if (r.tops != nullptr) r.tops[row] = top, r.shares[row] = 1.0f / sum[0];
  }
  if (!r.gradients) return;
  __syncthreads();  // every thread has read the target's logit
  const Gradient gradient{top, 1.0f / sum[0], 1.0f, target};
#pragma unroll 2
  for (int64_t piece = threadIdx.x; piece < cut.pieces; piece += blockDim.x) {
    const int64_t at = cut.before + piece * kWide<T>;
    write_gradient(logits, at, load_words(logits + at), gradient);
  }
  if (const int64_t at = cut.single(); at >= 0) store(logits[at], gradient(to_float(logits[at]), at));
}

// blockIdx.x: a part of the row; blockIdx.y and z: the row.
template <class T>
__global__ void __launch_bounds__(kOfBlock) backward_kernel(CrossEntropyBackward<T> r) {
  const int64_t row = blockIdx.y + int64_t{gridDim.y} * blockIdx.z;
  if (row >= r.rows) return;
  const int64_t target = r.targets[row];
  const bool counted = target != r.ignored;
  const T* logits = r.logits + row * r.classes;
  T* out = r.gradient + row * r.classes;
  const Gradient gradient{counted ? r.tops[row] : 0.0f, counted ? r.shares[row] : 0.0f,
                          counted ? *r.factor * *r.share : 0.0f, target};
  const Cut<T> cut(logits, r.classes);
  const int64_t first = int64_t{blockIdx.x} * kBatch * kOfBlock + threadIdx.x;
  Words batch[kBatch];
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    const int64_t piece = first + k * kOfBlock;
    batch[k] = Words{{0, 0, 0, 0}};
    if (piece < cut.pieces && counted) batch[k] = load_streamed(logits + cut.before + piece * kWide<T>);
  }
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    const int64_t piece = first + k * kOfBlock;
    if (piece < cut.pieces) write_gradient(out, cut.before + piece * kWide<T>, batch[k], gradient);
  }
  if (blockIdx.x != 0) return;
  if (const int64_t at = cut.single(); at >= 0) store(out[at], counted ? gradient(to_float(logits[at]), at) : 0.0f);
}

// One block: rows are few beside the logits.
__global__ void __launch_bounds__(1024)
    mean_kernel(const float* losses, const int64_t* targets, int64_t rows, int64_t ignored, float* mean, float* share) {
  constexpr int kAtOnce = 8;
  float sums[2] = {0, 0};
  for (int64_t first = threadIdx.x; first < rows; first += kAtOnce * 1024) {
    float loss[kAtOnce];
    int64_t target[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t row = first + k * 1024;
      loss[k] = row < rows ? losses[row] : 0.0f;
      target[k] = row < rows ? targets[row] : ignored;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sums[0] += loss[k], sums[1] += target[k] == ignored ? 0.0f : 1.0f;
  }
  block_sums(sums);
  if (threadIdx.x != 0) return;
  *share = 1.0f / fmaxf(sums[1], 1.0f);
  *mean = sums[0] * *share;
}

// A thread kWide<T> elements, then some one by one.
template <class From, class T>
__global__ void __launch_bounds__(kOfBlock)
    scale_kernel(const From* in, T* out, int64_t count, const float* factor, const float* share) {
  constexpr int kCount = kWide<T>, kEach = kWide<From>;
  const float by = *factor * *share;
  const int64_t thread = int64_t{blockIdx.x} * kOfBlock + threadIdx.x;
  if (thread < count / kCount) {
    float values[kCount];
#pragma unroll
    for (int first = 0; first < kCount; first += kEach) {
      float some[kEach];
      load_floats_streamed(in + thread * kCount + first, some);
#pragma unroll
      for (int i = 0; i < kEach; ++i) values[first + i] = some[i] * by;
    }
    store_floats(out + thread * kCount, values);
  }
  const int64_t at = count / kCount * kCount + thread;
  if (thread < kCount && at < count) store(out[at], to_float(in[at]) * by);
}

// Whole warps, enough that each thread has a batch at most.
unsigned threads_for(int64_t pieces) {
  const int64_t wanted = (pieces / kBatch + kLanes) / kLanes * kLanes;
  return static_cast<unsigned>(wanted < 64 ? 64 : wanted < kThreads ? wanted : kThreads);
}

}  // namespace

template <class T>
void cross_entropy_gpu(const CrossEntropyRows<T>& rows, void* stream) {
  if (rows.rows == 0) return;
  cross_entropy_kernel<T>
      <<<static_cast<unsigned>(rows.rows), threads_for(rows.classes / kWide<T>), 0, static_cast<GpuStream>(stream)>>>(
          rows);
  check_launch("cross_entropy");
}

template <class T>
void cross_entropy_backward_gpu(const CrossEntropyBackward<T>& rows, void* stream) {
  if (rows.rows == 0) return;
  constexpr int64_t kMostDown = 32768;
  const int64_t pieces = rows.classes / kWide<T>, across = (pieces + kBatch * kOfBlock - 1) / (kBatch * kOfBlock);
  const int64_t down = rows.rows < kMostDown ? rows.rows : kMostDown, deep = (rows.rows + down - 1) / down;
  const dim3 blocks(static_cast<unsigned>(across < 1 ? 1 : across), static_cast<unsigned>(down),
                    static_cast<unsigned>(deep));
  backward_kernel<T><<<blocks, kOfBlock, 0, static_cast<GpuStream>(stream)>>>(rows);
  check_launch("cross_entropy_backward");
}

void mean_loss_gpu(const MeanLoss& all, void* stream) {
  mean_kernel<<<1, 1024, 0, static_cast<GpuStream>(stream)>>>(all.losses, all.targets, all.rows, all.ignored, all.mean,
                                                              all.share);
  check_launch("mean_loss");
}

template <class From, class T>
void scale_gpu(const From* in, T* out, int64_t count, const float* factor, const float* share, void* stream) {
  if (count == 0) return;
  const int64_t blocks = (count / kWide<T> + kOfBlock) / kOfBlock;
  scale_kernel<From, T>
      <<<static_cast<unsigned>(blocks), kOfBlock, 0, static_cast<GpuStream>(stream)>>>(in, out, count, factor, share);
  check_launch("scale");
}

template void cross_entropy_gpu(const CrossEntropyRows<float>&, void*);
template void cross_entropy_backward_gpu(const CrossEntropyBackward<float>&, void*);
template void scale_gpu(const float*, float*, int64_t, const float*, const float*, void*);
template void cross_entropy_gpu(const CrossEntropyRows<Bfloat16>&, void*);
template void cross_entropy_backward_gpu(const CrossEntropyBackward<Bfloat16>&, void*);
template void scale_gpu(const Bfloat16*, Bfloat16*, int64_t, const float*, const float*, void*);
template void cross_entropy_gpu(const CrossEntropyRows<Half>&, void*);
template void cross_entropy_backward_gpu(const CrossEntropyBackward<Half>&, void*);
template void scale_gpu(const Half*, Half*, int64_t, const float*, const float*, void*);
template void scale_gpu(const float*, Bfloat16*, int64_t, const float*, const float*, void*);
template void scale_gpu(const float*, Half*, int64_t, const float*, const float*, void*);

}  // namespace hyperion::kernels

// Channels are a multiple of the 16-byte vector (the caller sees to it). A block sums a strip of channels over some of
// the rows; the last one of a strip to end adds up the parts, in a fixed order, and reckons what the second pass needs.
#include <atomic>

#include "hyperion/kernels/batch_norm_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kSumThreads = 512, kThreads = 256;
// As many blocks as run at once; of those that sum few, since one of them adds up all parts.
int64_t sum_blocks() { return gpu_limits().multiprocessors; }
int64_t apply_blocks() { return int64_t{4} * gpu_limits().multiprocessors; }
constexpr int kMostLanes = 32;  // of a block, across the channels

// Blocks of a strip that have ended, by launch in turn, so that launches on several streams keep apart; each is back at
// zero when its launch ends, so that a recorded launch can be replayed.
constexpr int kMostStrips = 256, kLaunches = 64;
__device__ unsigned ended[kLaunches][kMostStrips];

int lanes_for(int64_t channels, int wide) {
  int lanes = 1;
  while (lanes < kMostLanes && lanes * wide < channels) lanes *= 2;
  return lanes;
}

__device__ inline void load_channels(const float* from, float (&out)[4]) {
  const Words words = load_words(from);
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = __uint_as_float(words.word[i]);
}
__device__ inline void load_channels(const float* from, float (&out)[8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Words words = load_words(from + 4 * half);
#pragma unroll
    for (int i = 0; i < 4; ++i) out[4 * half + i] = __uint_as_float(words.word[i]);
  }
}

// Adds up what the rows of threads hold, two sums a channel, into this block's part. True in all threads of the block
// that is the last of its strip: every part is then there to read.
template <int COUNT>
__device__ inline bool write_part(float (&first)[COUNT], float (&second)[COUNT], float* partial, int64_t channels,
                                  int launch) {
  constexpr int kWarps = kSumThreads / kLanes;
  __shared__ float sums[2][kWarps][kMostLanes * COUNT];
  __shared__ bool last;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x, lanes = blockDim.x, columns = lanes * COUNT;
  for (int distance = lanes; distance < kLanes; distance *= 2) {  // the rows of a warp
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      first[i] += exchange(first[i], distance), second[i] += exchange(second[i], distance);
  }
  if (thread % kLanes < lanes) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      sums[0][thread / kLanes][threadIdx.x * COUNT + i] = first[i];
      sums[1][thread / kLanes][threadIdx.x * COUNT + i] = second[i];
    }
  }
  __syncthreads();
  for (int item = thread; item < 2 * columns; item += kSumThreads) {
    const int which = item / columns, column = item % columns;
    const int64_t channel = int64_t{blockIdx.x} * columns + column;
    if (channel >= channels) continue;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += sums[which][warp][column];
    partial[(blockIdx.y * int64_t{2} + which) * channels + channel] = sum;
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    unsigned& counter = ended[launch][blockIdx.x];
    last = atomicAdd(&counter, 1u) == gridDim.y - 1;
    if (last) counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// Four channels' sums of one kind over all parts, shared by threads; `then(channel, first, second)` is called once a
// channel of the strip, by the thread of the channel's number in it.
template <int COUNT, class Then>
__device__ inline void add_parts(const float* partial, int64_t channels, Then then) {
  constexpr int kBatch = 16;
  __shared__ float4 of_threads[kSumThreads];
  __shared__ float totals[2][kMostLanes * COUNT];
  const int thread = threadIdx.y * blockDim.x + threadIdx.x, columns = blockDim.x * COUNT;
  const int quads = columns / 4, parts = static_cast<int>(gridDim.y);  // quads: a power of two, at most 64
  const int64_t start = int64_t{blockIdx.x} * columns;
  const int all = 2 * quads, groups = kSumThreads / all;
  const int item = thread % all, group = thread / all, which = item / quads, quad = item % quads;
  float4 sum{0, 0, 0, 0};
  if (start + 4 * quad < channels) {
    const float* from = partial + which * channels + start + 4 * quad;
    for (int part = group; part < parts; part += kBatch * groups) {
      float4 batch[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int at = part + k * groups;
        batch[k] =
            at < parts ? *reinterpret_cast<const float4*>(from + int64_t{at} * 2 * channels) : float4{0, 0, 0, 0};
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        sum.x += batch[k].x, sum.y += batch[k].y, sum.z += batch[k].z, sum.w += batch[k].w;
    }
  }
  of_threads[thread] = sum;
  __syncthreads();
  if (group == 0) {
#pragma unroll 8
    for (int g = 1; g < groups; ++g) {
      const float4 more = of_threads[g * all + item];
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    totals[which][4 * quad] = sum.x, totals[which][4 * quad + 1] = sum.y;
    totals[which][4 * quad + 2] = sum.z, totals[which][4 * quad + 3] = sum.w;
  }
  __syncthreads();
  if (thread < columns && start + thread < channels) then(start + thread, totals[0][thread], totals[1][thread]);
}

// Sums of x and x^2, each less the first row's value, which keeps the squares from cancelling.
template <class T>
__global__ void __launch_bounds__(kSumThreads) statistics(BatchNormForward<T> n, int launch) {
  constexpr int kCount = kWide<T>, kBatch = 8;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  let_next_begin();
  // What the last block wants of its channels at the end: on the way while the rows are summed.
  const int column = threadIdx.y * blockDim.x + threadIdx.x;
  const int64_t own = blockIdx.x * int64_t{blockDim.x} * kCount + column;
  float first = 0, weight = 0, bias = 0, running_mean = 0, running_var = 0;
  if (column < static_cast<int>(blockDim.x) * kCount && own < n.channels) {
    first = to_float(n.x[own]), weight = n.weight[own], bias = n.bias[own];
    if (n.momentum > 0) running_mean = n.running_mean[own], running_var = n.running_var[own];
  }
  float sum[kCount], squares[kCount], base[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = squares[i] = 0;
  if (channel < n.channels) {
    load_floats(n.x + channel, base);
    const int64_t step = int64_t{gridDim.y} * blockDim.y;
    for (int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y; row < n.rows; row += kBatch * step) {
      Words batch[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (row + k * step < n.rows) batch[k] = load_streamed(n.x + (row + k * step) * n.channels + channel);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (row + k * step >= n.rows) continue;
        float x[kCount];
        to_floats<T>(batch[k], x);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          const float value = x[i] - base[i];
          sum[i] += value;
          squares[i] += value * value;
        }
      }
    }
  }
  if (!write_part(sum, squares, n.partial, n.channels, launch)) return;
  if (n.batches != nullptr && blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) ++*n.batches;
  add_parts<kCount>(n.partial, n.channels, [&](int64_t c, float total, float square) {
    const auto count = static_cast<float>(n.rows);
    const float off = total / count, mean = first + off;
    const float variance = fmaxf(square / count - off * off, 0.0f);
    if (n.momentum > 0) {
      n.running_mean[c] = running_mean + n.momentum * (mean - running_mean);
      n.running_var[c] = running_var + n.momentum * (variance * (count / (count - 1)) - running_var);
    }
    const float inverse = rsqrtf(variance + n.epsilon), scale = inverse * weight;
    n.numbers[c] = mean, n.numbers[n.channels + c] = inverse;
    n.numbers[2 * n.channels + c] = scale, n.numbers[3 * n.channels + c] = bias - mean * scale;
  });
}

// A thread keeps its channels and walks up the rows: the last ones read are the likeliest to be in the cache still.
// With ONCE, the output gives way to them there.
template <class T, bool RESIDUAL, bool ONCE>
__global__ void __launch_bounds__(kThreads) apply(BatchNormForward<T> n) {
  constexpr int kCount = kWide<T>, kBatch = RESIDUAL ? 2 : 4;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  if (channel >= n.channels) return;
  const int64_t step = int64_t{gridDim.y} * blockDim.y;
  int64_t row = n.rows - 1 - blockIdx.y * int64_t{blockDim.y} - threadIdx.y;
  Words xs[kBatch], residuals[RESIDUAL ? kBatch : 1];
  const auto fetch = [&] {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (row - k * step < 0) continue;
      const int64_t at = (row - k * step) * n.channels + channel;
      xs[k] = load_streamed(n.x + at);
      if constexpr (RESIDUAL) residuals[k] = load_streamed(n.residual + at);
    }
  };
  fetch();
  wait_for_one_ahead();  // for scale and shift
  float scale[kCount], shift[kCount];
  load_channels(n.numbers + 2 * n.channels + channel, scale);
  load_channels(n.numbers + 3 * n.channels + channel, shift);
  for (; row >= 0; row -= kBatch * step, fetch()) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (row - k * step < 0) continue;
      const int64_t at = (row - k * step) * n.channels + channel;
      float x[kCount], residual[kCount];
      to_floats<T>(xs[k], x);
      if constexpr (RESIDUAL) to_floats<T>(residuals[k], residual);
      unsigned passed = 0;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        x[i] = fmaf(x[i], scale[i], shift[i]);
        if constexpr (RESIDUAL) x[i] += residual[i];
        passed |= x[i] > 0 ? 1u << i : 0u;
        if (n.relu) x[i] = fmaxf(x[i], 0.0f);
      }
      if constexpr (ONCE) {
        store_floats_once(n.y + at, x);
      } else {
        store_floats(n.y + at, x);
      }
      if constexpr (RESIDUAL)
        if (n.mask != nullptr) n.mask[at / kCount] = static_cast<uint8_t>(passed);
    }
  }
}

// Whether an element's gradient passes: always; where x scale + shift is above 0; where the mask says so.
enum class Gate { open, found, masked };

// The sums of the gradient and of it along x. What came through a mask is written: the residual's gradient, and what
// the second pass reads.
template <class T, Gate GATE>
__global__ void __launch_bounds__(kSumThreads) gradient_sums(BatchNormBackward<T> n, int64_t parts, int launch) {
  constexpr int kCount = kWide<T>, kBatch = 4;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  let_next_begin();
  float sum[kCount], along[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = along[i] = 0;
  if (channel < n.channels) {
    float mean[kCount], scale[GATE == Gate::found ? kCount : 1], shift[GATE == Gate::found ? kCount : 1];
    load_channels(n.numbers + channel, mean);
    if constexpr (GATE == Gate::found) {
      load_channels(n.numbers + 2 * n.channels + channel, scale);
      load_channels(n.numbers + 3 * n.channels + channel, shift);
    }
    const int64_t step = int64_t{gridDim.y} * blockDim.y;
    for (int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y; row < n.rows; row += kBatch * step) {
      Words xs[kBatch], dys[kBatch], mores[GATE == Gate::masked ? kBatch : 1];
      unsigned masks[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (row + k * step >= n.rows) continue;
        const int64_t at = (row + k * step) * n.channels + channel;
        xs[k] = load_streamed(n.x + at);
        dys[k] = load_streamed(n.dy + at);
        if constexpr (GATE == Gate::masked) {
          if (n.more != nullptr) mores[k] = load_streamed(n.more + at);
          masks[k] = n.mask[at / kCount];
        }
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (row + k * step >= n.rows) continue;
        float x[kCount], dy[kCount];
        to_floats<T>(xs[k], x);
        to_floats<T>(dys[k], dy);
        if constexpr (GATE == Gate::masked) {
          if (n.more != nullptr) {
            float more[kCount];
            to_floats<T>(mores[k], more);
#pragma unroll
            for (int i = 0; i < kCount; ++i) dy[i] += more[i];
          }
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if constexpr (GATE == Gate::found) dy[i] = fmaf(x[i], scale[i], shift[i]) > 0 ? dy[i] : 0.0f;
          if constexpr (GATE == Gate::masked) dy[i] = (masks[k] >> i & 1u) != 0 ? dy[i] : 0.0f;
          sum[i] += dy[i];
          along[i] += dy[i] * (x[i] - mean[i]);
        }
        if constexpr (GATE == Gate::masked) store_floats(n.dresidual + (row + k * step) * n.channels + channel, dy);
      }
    }
  }
  if (!write_part(sum, along, n.partial, n.channels, launch)) return;
  add_parts<kCount>(n.partial, n.channels, [&](int64_t c, float total, float far) {
    const float mean = n.numbers[c], inverse = n.numbers[n.channels + c], scale = n.numbers[2 * n.channels + c];
    const float share = 1.0f / static_cast<float>(n.rows);
    n.dbias[c] = total, n.dweight[c] = far * inverse;
    // dx = scale (g - mean of g - normal x mean of g along the normal), as of_g g + of_x x + rest.
    float* terms = n.partial + parts * 2 * n.channels;
    const float of_x = -scale * inverse * inverse * far * share;
    terms[c] = scale, terms[n.channels + c] = of_x;
    terms[2 * n.channels + c] = -scale * total * share - of_x * mean;
  });
}

// `from`: dy, or what the first pass wrote through the mask.
template <class T, Gate GATE, bool ONCE>
__global__ void __launch_bounds__(kThreads) gradients(BatchNormBackward<T> n, const T* from, const float* terms) {
  constexpr int kCount = kWide<T>, kBatch = 2;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  if (channel >= n.channels) return;
  const int64_t step = int64_t{gridDim.y} * blockDim.y;
  int64_t row = n.rows - 1 - blockIdx.y * int64_t{blockDim.y} - threadIdx.y;
  Words xs[kBatch], dys[kBatch];
  const auto fetch = [&](const T* of, Words(&to)[kBatch]) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (row - k * step >= 0) to[k] = load_streamed(of + (row - k * step) * n.channels + channel);
  };
  fetch(n.x, xs);
  wait_for_one_ahead();
  fetch(from, dys);
  float of_g[kCount], of_x[kCount], rest[kCount], shift[GATE == Gate::found ? kCount : 1];
  load_channels(terms + channel, of_g);
  load_channels(terms + n.channels + channel, of_x);
  load_channels(terms + 2 * n.channels + channel, rest);
  if constexpr (GATE == Gate::found) load_channels(n.numbers + 3 * n.channels + channel, shift);
  for (; row >= 0; row -= kBatch * step, fetch(n.x, xs), fetch(from, dys)) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (row - k * step < 0) continue;
      float x[kCount], dy[kCount];
      to_floats<T>(xs[k], x);
      to_floats<T>(dys[k], dy);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        // of_g is the forward's scale.
        if constexpr (GATE == Gate::found) dy[i] = fmaf(x[i], of_g[i], shift[i]) > 0 ? dy[i] : 0.0f;
        x[i] = of_g[i] * dy[i] + (of_x[i] * x[i] + rest[i]);
      }
      T* to = n.dx + (row - k * step) * n.channels + channel;
      if constexpr (ONCE) {
        store_floats_once(to, x);
      } else {
        store_floats(to, x);
      }
    }
  }
}

// Whether the tensor that the second pass reads again may still lie in the cache then, but for what is written.
template <class T>
bool cached(int64_t rows, int64_t channels) {
  return rows * channels * static_cast<int64_t>(sizeof(T)) <= int64_t{48} << 20;
}

// Blocks of (lanes, rows), `of_block` threads, over strips of channels and as many groups of rows as are wanted or
// needed.
template <class T>
struct Shape {
  dim3 threads, blocks;
  Shape(int64_t rows, int64_t channels, int64_t wanted, int of_block) {
    const int lanes = lanes_for(channels, kWide<T>);
    threads = dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(of_block / lanes));
    const int64_t strips = (channels + lanes * kWide<T> - 1) / (lanes * kWide<T>);
    const int64_t needed = (rows + threads.y - 1) / threads.y, most = strips < wanted ? wanted / strips : 1;
    blocks = dim3(static_cast<unsigned>(strips), static_cast<unsigned>(most < needed ? most : needed));
  }
};

int next_launch() {
  static std::atomic<unsigned> launches{0};
  return static_cast<int>(launches++ % kLaunches);
}

template <class T, Gate GATE>
void backward_as(const BatchNormBackward<T>& norm, GpuStream stream) {
  const Shape<T> sums(norm.rows, norm.channels, sum_blocks(), kSumThreads);
  const Shape<T> all(norm.rows, norm.channels, apply_blocks(), kThreads);
  const int64_t parts = sums.blocks.y;
  gradient_sums<T, GATE><<<sums.blocks, sums.threads, 0, stream>>>(norm, parts, next_launch());
  const float* terms = norm.partial + parts * 2 * norm.channels;
  const T* from = GATE == Gate::masked ? norm.dresidual : norm.dy;
  constexpr Gate kLeft = GATE == Gate::found ? Gate::found : Gate::open;
  const auto second = cached<T>(norm.rows, norm.channels) ? gradients<T, kLeft, true> : gradients<T, kLeft, false>;
  launch_overlapping(second, all.blocks, all.threads, 0, stream, norm, from, terms);
}

}  // namespace

int64_t batch_norm_parts(int64_t rows, int64_t channels) {
  const Shape<Bfloat16> narrow(rows, channels, sum_blocks(), kSumThreads);
  const Shape<float> wide(rows, channels, sum_blocks(), kSumThreads);
  return narrow.blocks.y > wide.blocks.y ? narrow.blocks.y : wide.blocks.y;
}

int64_t batch_norm_mask_bytes(int64_t elements, int64_t element_bytes) { return elements * element_bytes / 16; }

template <class T>
void batch_norm_forward_gpu(const BatchNormForward<T>& norm, void* stream) {
  const auto queue = static_cast<GpuStream>(stream);
  const Shape<T> sums(norm.rows, norm.channels, sum_blocks(), kSumThreads);
  const Shape<T> all(norm.rows, norm.channels, apply_blocks(), kThreads);
  statistics<T><<<sums.blocks, sums.threads, 0, queue>>>(norm, next_launch());
  const bool once = cached<T>(norm.rows, norm.channels);
  const auto second = norm.residual != nullptr ? (once ? apply<T, true, true> : apply<T, true, false>)
                                               : (once ? apply<T, false, true> : apply<T, false, false>);
  launch_overlapping(second, all.blocks, all.threads, 0, queue, norm);
  check_launch("batch_norm_forward");
}

template <class T>
void batch_norm_backward_gpu(const BatchNormBackward<T>& norm, void* stream) {
  const auto queue = static_cast<GpuStream>(stream);
  if (!norm.relu) {
    backward_as<T, Gate::open>(norm, queue);
  } else if (norm.mask == nullptr) {
    backward_as<T, Gate::found>(norm, queue);
  } else {
    backward_as<T, Gate::masked>(norm, queue);
  }
  check_launch("batch_norm_backward");
}

template void batch_norm_forward_gpu(const BatchNormForward<float>&, void*);
template void batch_norm_backward_gpu(const BatchNormBackward<float>&, void*);
template void batch_norm_forward_gpu(const BatchNormForward<Bfloat16>&, void*);
template void batch_norm_backward_gpu(const BatchNormBackward<Bfloat16>&, void*);
template void batch_norm_forward_gpu(const BatchNormForward<Half>&, void*);
template void batch_norm_backward_gpu(const BatchNormBackward<Half>&, void*);

}  // namespace hyperion::kernels

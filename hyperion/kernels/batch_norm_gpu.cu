// Channels are a multiple of the 16-byte vector (the caller sees to it). A block sums a strip of channels over some of
// the rows; parts are added up in a fixed order.
#include "hyperion/kernels/batch_norm_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocks = 1056;

int lanes_for(int64_t channels, int wide) {
  int lanes = 1;
  while (lanes < 32 && lanes * wide < channels) lanes *= 2;
  return lanes;
}

// Adds up what the rows of threads hold: two sums a channel.
template <int COUNT>
__device__ inline void write_part(float (&first)[COUNT], float (&second)[COUNT], float* partial, int64_t channels) {
  __shared__ float sums[2][kThreads][COUNT + 1];
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[0][thread][i] = first[i], sums[1][thread][i] = second[i];
  __syncthreads();
  const int columns = blockDim.x * COUNT;
  for (int item = thread; item < 2 * columns; item += kThreads) {
    const int which = item / columns, column = item % columns, lane = column / COUNT, place = column % COUNT;
    const int64_t channel = blockIdx.x * int64_t{blockDim.x} * COUNT + column;
    if (channel >= channels) continue;
    float sum = 0;
    for (unsigned row = 0; row < blockDim.y; ++row) sum += sums[which][row * blockDim.x + lane][place];
    partial[(blockIdx.y * int64_t{2} + which) * channels + channel] = sum;
  }
}

// Sums of x and x^2, each less the first row's value, which keeps the squares from cancelling.
template <class T>
__global__ void __launch_bounds__(kThreads) statistics(BatchNormForward<T> n) {
  constexpr int kCount = kWide<T>;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  float sum[kCount], squares[kCount], base[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = squares[i] = 0;
  if (channel < n.channels) {
    load_floats(n.x + channel, base);
#pragma unroll 4
    for (int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y; row < n.rows;
         row += int64_t{gridDim.y} * blockDim.y) {
      float x[kCount];
      load_floats(n.x + row * n.channels + channel, x);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float value = x[i] - base[i];
        sum[i] += value;
        squares[i] += value * value;
      }
    }
  }
  write_part(sum, squares, n.partial, n.channels);
}

// A channel's parts, by threadIdx.y, added up in every thread of threadIdx.y == 0.
__device__ inline void add_parts(const float* partial, int64_t parts, int64_t channels, int64_t channel, float& first,
                                 float& second) {
  __shared__ float sums[2][8][33];
  first = second = 0;
  if (channel < channels)
    for (int64_t part = threadIdx.y; part < parts; part += 8) {
      first += partial[2 * part * channels + channel];
      second += partial[(2 * part + 1) * channels + channel];
    }
  sums[0][threadIdx.y][threadIdx.x] = first, sums[1][threadIdx.y][threadIdx.x] = second;
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int i = 1; i < 8; ++i) first += sums[0][i][threadIdx.x], second += sums[1][i][threadIdx.x];
}

template <class T>
__global__ void scales(BatchNormForward<T> n, int64_t parts) {
  const int64_t channel = blockIdx.x * int64_t{32} + threadIdx.x;
  float mean, variance;
  if (n.training) {
    float sum, squares;
    add_parts(n.partial, parts, n.channels, channel, sum, squares);
    if (threadIdx.y != 0 || channel >= n.channels) return;
    const auto count = static_cast<float>(n.rows);
    const float off = sum / count;
    mean = to_float(n.x[channel]) + off;
    variance = fmaxf(squares / count - off * off, 0.0f);
    if (n.momentum > 0) {
      n.running_mean[channel] += n.momentum * (mean - n.running_mean[channel]);
      n.running_var[channel] += n.momentum * (variance * (count / (count - 1)) - n.running_var[channel]);
    }
  } else {
    if (threadIdx.y != 0 || channel >= n.channels) return;
    mean = n.running_mean[channel], variance = n.running_var[channel];
  }
  const float inverse = rsqrtf(variance + n.epsilon), scale = inverse * n.weight[channel];
  n.mean[channel] = mean, n.inverse[channel] = inverse;
  n.scale[channel] = scale, n.shift[channel] = n.bias[channel] - mean * scale;
}

// A thread keeps its channels and walks down the rows.
template <class T>
__global__ void __launch_bounds__(kThreads) apply(BatchNormForward<T> n) {
  constexpr int kCount = kWide<T>;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  if (channel >= n.channels) return;
  float scale[kCount], shift[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) scale[i] = n.scale[channel + i], shift[i] = n.shift[channel + i];
#pragma unroll 2
  for (int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y; row < n.rows;
       row += int64_t{gridDim.y} * blockDim.y) {
    const int64_t at = row * n.channels + channel;
    float x[kCount], residual[kCount];
    load_floats(n.x + at, x);
    if (n.residual != nullptr) load_floats(n.residual + at, residual);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i] = x[i] * scale[i] + shift[i];
      if (n.residual != nullptr) x[i] += residual[i];
      if (n.relu) x[i] = fmaxf(x[i], 0.0f);
    }
    store_floats(n.y + at, x);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) gradient_sums(BatchNormBackward<T> n) {
  constexpr int kCount = kWide<T>;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  float sum[kCount], along[kCount], mean[kCount], inverse[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = along[i] = 0;
  if (channel < n.channels) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) mean[i] = n.mean[channel + i], inverse[i] = n.inverse[channel + i];
#pragma unroll 2
    for (int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y; row < n.rows;
         row += int64_t{gridDim.y} * blockDim.y) {
      const int64_t at = row * n.channels + channel;
      float x[kCount], y[kCount], dy[kCount];
      load_floats(n.x + at, x);
      load_floats(n.dy + at, dy);
      if (n.relu) load_floats(n.y + at, y);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float gradient = n.relu && !(y[i] > 0) ? 0.0f : dy[i];
        sum[i] += gradient;
        along[i] += gradient * (x[i] - mean[i]) * inverse[i];
      }
    }
  }
  write_part(sum, along, n.partial, n.channels);
}

template <class T>
__global__ void add_gradients(BatchNormBackward<T> n, int64_t parts) {
  const int64_t channel = blockIdx.x * int64_t{32} + threadIdx.x;
  float sum, along;
  add_parts(n.partial, parts, n.channels, channel, sum, along);
  if (threadIdx.y != 0 || channel >= n.channels) return;
  n.dbias[channel] = sum, n.dweight[channel] = along;
}

template <class T>
__global__ void __launch_bounds__(kThreads) gradients(BatchNormBackward<T> n) {
  constexpr int kCount = kWide<T>;
  const int64_t channel = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) * kCount;
  if (channel >= n.channels) return;
  float mean[kCount], inverse[kCount], scale[kCount], level[kCount], along[kCount];
  const float share = 1.0f / static_cast<float>(n.rows);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    mean[i] = n.mean[channel + i], inverse[i] = n.inverse[channel + i];
    scale[i] = n.weight[channel + i] * inverse[i];
    level[i] = n.dbias[channel + i] * share, along[i] = n.dweight[channel + i] * share;
  }
#pragma unroll 2
  for (int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y; row < n.rows;
       row += int64_t{gridDim.y} * blockDim.y) {
    const int64_t at = row * n.channels + channel;
    float x[kCount], y[kCount], dy[kCount];
    load_floats(n.x + at, x);
    load_floats(n.dy + at, dy);
    if (n.relu) load_floats(n.y + at, y);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (n.relu && !(y[i] > 0)) dy[i] = 0;
      x[i] = scale[i] * (dy[i] - level[i] - (x[i] - mean[i]) * inverse[i] * along[i]);
    }
    store_floats(n.dx + at, x);
    if (n.dresidual != nullptr) store_floats(n.dresidual + at, dy);
  }
}

template <class T>
struct Shape {
  dim3 threads, blocks;
  Shape(int64_t rows, int64_t channels, int64_t parts) {
    const int lanes = lanes_for(channels, kWide<T>);
    threads = dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(kThreads / lanes));
    const int64_t strips = (channels + lanes * kWide<T> - 1) / (lanes * kWide<T>);
    const int64_t down = (rows + threads.y - 1) / threads.y;
    blocks = dim3(static_cast<unsigned>(strips), static_cast<unsigned>(parts < down ? parts : down));
  }
};

unsigned columns_of(int64_t channels) { return static_cast<unsigned>((channels + 31) / 32); }

}  // namespace

int64_t batch_norm_parts(int64_t rows, int64_t channels) {
  const int64_t lanes = lanes_for(channels, 8), strips = (channels + lanes * 8 - 1) / (lanes * 8);
  const int64_t down = kThreads / lanes, most = (rows + 4 * down - 1) / (4 * down), wanted = kBlocks / strips;
  const int64_t parts = most < wanted ? most : wanted;
  return parts < 1 ? 1 : parts;
}

template <class T>
void batch_norm_forward_gpu(const BatchNormForward<T>& norm, void* stream) {
  const auto queue = static_cast<GpuStream>(stream);
  const int64_t parts = batch_norm_parts(norm.rows, norm.channels);
  const Shape<T> sums(norm.rows, norm.channels, parts), all(norm.rows, norm.channels, 8 * parts);
  if (norm.training) statistics<T><<<sums.blocks, sums.threads, 0, queue>>>(norm);
  scales<T><<<columns_of(norm.channels), dim3(32, 8), 0, queue>>>(norm, sums.blocks.y);
  apply<T><<<all.blocks, all.threads, 0, queue>>>(norm);
  check_launch("batch_norm_forward");
}

template <class T>
void batch_norm_backward_gpu(const BatchNormBackward<T>& norm, void* stream) {
  const auto queue = static_cast<GpuStream>(stream);
  const int64_t parts = batch_norm_parts(norm.rows, norm.channels);
  const Shape<T> sums(norm.rows, norm.channels, parts), all(norm.rows, norm.channels, 8 * parts);
  gradient_sums<T><<<sums.blocks, sums.threads, 0, queue>>>(norm);
  add_gradients<T><<<columns_of(norm.channels), dim3(32, 8), 0, queue>>>(norm, sums.blocks.y);
  gradients<T><<<all.blocks, all.threads, 0, queue>>>(norm);
  check_launch("batch_norm_backward");
}

#define HYPERION_BATCH_NORM(T)                                             \
  template void batch_norm_forward_gpu(const BatchNormForward<T>&, void*); \
  template void batch_norm_backward_gpu(const BatchNormBackward<T>&, void*);
HYPERION_BATCH_NORM(float)
HYPERION_BATCH_NORM(Bfloat16)
HYPERION_BATCH_NORM(Half)
#undef HYPERION_BATCH_NORM

}  // namespace hyperion::kernels

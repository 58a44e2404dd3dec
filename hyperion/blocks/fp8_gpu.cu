// A tile of 128 rows and 64 columns at a time: a thread finds 4 rows of 8 columns, and what is to be transposed goes
// through shared memory, a word of 4 rows at a time, so that both forms are written in whole lines.
#include "hyperion/blocks/fp8_math.h"
#include "hyperion/kernels/gpu_activations.h"

namespace hyperion::blocks {

using namespace kernels;
namespace {

constexpr int kThreads = 256, kTileRows = 128, kTileColumns = 64, kRows = 4;
constexpr int kCount = kWide<Bfloat16>;  // columns of a thread

template <Fp8Type TYPE>
__device__ inline uint32_t narrow_four(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t low, high;
  if constexpr (TYPE == Fp8Type::e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  }
  return low | static_cast<uint32_t>(high) << 16;
#else
  return to_fp8(a, TYPE) | static_cast<uint32_t>(to_fp8(b, TYPE)) << 8 | static_cast<uint32_t>(to_fp8(c, TYPE)) << 16 |
         static_cast<uint32_t>(to_fp8(d, TYPE)) << 24;
#endif
}

// Four words of four bytes, transposed: word i of the result holds byte i of each.
__device__ inline void turn_bytes(uint32_t (&w)[4]) {
  const uint32_t a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
  const uint32_t c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(a, b, 0x5410), w[1] = __byte_perm(a, b, 0x7632);
  w[2] = __byte_perm(c, d, 0x5410), w[3] = __byte_perm(c, d, 0x7632);
}

// The sources of values: `load` reads a piece of a row, `find` makes 8 values of it. Loads come first, all at once.
struct Values {
  const Bfloat16* x;
  int64_t columns;
  using Loaded = Words;
  __device__ Loaded load(int64_t row, int64_t column) const { return load_words(x + row * columns + column); }
  __device__ void find(const Loaded& loaded, int64_t, int64_t, float (&v)[kCount]) const {
    to_floats<Bfloat16>(loaded, v);
  }
};

struct Norms {
  Fp8NormInput norm;
  int64_t columns;
  struct Loaded {
    Words x;
    float mean, inverse;
  };
  __device__ Loaded load(int64_t row, int64_t column) const {
    return {load_words(norm.x + row * columns + column), norm.mean != nullptr ? norm.mean[row] : 0.0f,
            norm.inverse[row]};
  }
  __device__ void find(const Loaded& loaded, int64_t, int64_t column, float (&v)[kCount]) const {
    float weight[kCount];
    to_floats<Bfloat16>(loaded.x, v);
    load_floats(norm.weight + column, weight);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = (v[i] - loaded.mean) * loaded.inverse * weight[i];
    if (norm.bias == nullptr) return;
    float bias[kCount];
    load_floats(norm.bias + column, bias);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] += bias[i];
  }
};

template <Activation KIND, bool BACKWARD>
struct Activated {
  const Bfloat16 *x, *upstream;
  Bfloat16* gradient;
  int64_t columns;
  static constexpr bool kGated = KIND == Activation::gated_silu;
  struct Loaded {
    Words x, up, upstream;
  };
  __device__ int64_t place(int64_t row, int64_t column) const { return row * columns * (kGated ? 2 : 1) + column; }
  __device__ Loaded load(int64_t row, int64_t column) const {
    Loaded loaded;
    loaded.x = load_words(x + place(row, column));
    if constexpr (kGated) loaded.up = load_words(x + place(row, column) + columns);
    if constexpr (BACKWARD) loaded.upstream = load_words(upstream + row * columns + column);
    return loaded;
  }
  __device__ void find(const Loaded& loaded, int64_t row, int64_t column, float (&v)[kCount]) const {
    float above[kCount], in[kCount], up[kCount];
    to_floats<Bfloat16>(loaded.x, in);
    if constexpr (kGated) to_floats<Bfloat16>(loaded.up, up);
    if constexpr (BACKWARD) to_floats<Bfloat16>(loaded.upstream, above);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kGated) {
        if constexpr (BACKWARD) {
          gate<Bfloat16>(in[i], up[i], above[i], in[i], up[i], v[i]);
        } else {
          v[i] = in[i] * sigmoid_of<Bfloat16>(in[i]) * up[i];
        }
      } else {
        const Both both = gelu_of<Bfloat16, KIND>(in[i]);
        v[i] = both.value;
        if constexpr (BACKWARD) in[i] = above[i] * both.slope;
      }
    }
    if constexpr (BACKWARD) {
      store_floats(gradient + place(row, column), in);
      if constexpr (kGated) store_floats(gradient + place(row, column) + columns, up);
    }
  }
};

__device__ inline void raise(float* largest, float met) {
  // Positive floats are ordered as their bits are.
  if (met > 0) atomicMax(reinterpret_cast<int*>(largest), __float_as_int(met));
}

template <Fp8Type TYPE>
__device__ inline float scale_for(float largest) {
  return fp8_largest(TYPE) / fmaxf(largest, 0x1p-100f);
}

// The largest size of each row and of each column, where there is a place for them.
template <class Source>
__global__ void __launch_bounds__(kThreads) largest_kernel(Source source, Fp8Tiles t) {
  __shared__ float of_warps[kThreads / kLanes][kTileColumns];
  const int piece = static_cast<int>(threadIdx.x) % (kTileColumns / kCount),
            quad = static_cast<int>(threadIdx.x) / (kTileColumns / kCount);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t column = int64_t{blockIdx.x} * kTileColumns + piece * kCount,
                row = int64_t{blockIdx.y} * kTileRows + quad * kRows;
  const bool inside = column < t.columns && row < t.rows;
  float of_row[kRows] = {}, of_column[kCount] = {};
  if (inside) {
    typename Source::Loaded loaded[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) loaded[j] = source.load(row + j, column);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      float v[kCount];
      source.find(loaded[j], row + j, column, v);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        of_row[j] = fmaxf(of_row[j], fabsf(v[i]));
        of_column[i] = fmaxf(of_column[i], fabsf(v[i]));
      }
    }
  }
  if (t.largest_of_rows != nullptr) {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      for (int distance = 1; distance < kTileColumns / kCount; distance *= 2)
        of_row[j] = fmaxf(of_row[j], exchange(of_row[j], distance));
      if (piece == 0 && row < t.rows) raise(t.largest_of_rows + row + j, of_row[j]);
    }
  }
  if (t.largest_of_columns == nullptr) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    of_column[i] = fmaxf(of_column[i], exchange(of_column[i], 8));
    of_column[i] = fmaxf(of_column[i], exchange(of_column[i], 16));
    if (lane < kTileColumns / kCount) of_warps[warp][piece * kCount + i] = of_column[i];
  }
  __syncthreads();
  const int64_t mine = int64_t{blockIdx.x} * kTileColumns + threadIdx.x;
  if (threadIdx.x >= kTileColumns || mine >= t.columns) return;
  float most = 0;
  for (int w = 0; w < kThreads / kLanes; ++w) most = fmaxf(most, of_warps[w][threadIdx.x]);
  raise(t.largest_of_columns + mine, most);
}

// BY_ROWS: each row has its scale, and in the transposed form each column.
template <class Source, Fp8Type TYPE, bool BY_ROWS>
__global__ void __launch_bounds__(kThreads) tiles_kernel(Source source, Fp8Tiles t) {
  __shared__ uint32_t quads[kTileColumns][kTileRows / kRows + 1];
  __shared__ float of_warps[kThreads / kLanes][kTileColumns];
  const int piece = static_cast<int>(threadIdx.x) % (kTileColumns / kCount),
            quad = static_cast<int>(threadIdx.x) / (kTileColumns / kCount);
  const int64_t column = int64_t{blockIdx.x} * kTileColumns + piece * kCount,
                row = int64_t{blockIdx.y} * kTileRows + quad * kRows;
  const bool inside = column < t.columns && row < t.rows;
  const float scale = t.scale != nullptr ? *t.scale : 0.0f;
  float most = 0, sum[kCount] = {};
  uint32_t low[kRows] = {}, high[kRows] = {};
  if (inside) {
    typename Source::Loaded loaded[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) loaded[j] = source.load(row + j, column);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      float v[kCount];
      source.find(loaded[j], row + j, column, v);
      const float along = BY_ROWS && t.straight != nullptr ? scale_for<TYPE>(t.largest_of_rows[row + j]) : scale;
      float s[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if constexpr (!BY_ROWS) most = fmaxf(most, fabsf(v[i]));
        sum[i] += v[i];
        s[i] = v[i] * along;
      }
      low[j] = narrow_four<TYPE>(s[0], s[1], s[2], s[3]);
      high[j] = narrow_four<TYPE>(s[4], s[5], s[6], s[7]);
      if (t.straight != nullptr)
        *reinterpret_cast<uint2*>(t.straight + (row + j) * t.columns + column) = make_uint2(low[j], high[j]);
      if (BY_ROWS && t.transposed != nullptr) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) v[i] *= scale_for<TYPE>(t.largest_of_columns[column + i]);
        low[j] = narrow_four<TYPE>(v[0], v[1], v[2], v[3]);
        high[j] = narrow_four<TYPE>(v[4], v[5], v[6], v[7]);
      }
    }
  }
  if constexpr (!BY_ROWS) {
    most = block_max(most);
    if (threadIdx.x == 0 && t.largest != nullptr) raise(t.largest, most);
  }
  if (t.sums != nullptr) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sum[i] += exchange(sum[i], 8);
      sum[i] += exchange(sum[i], 16);
      if (lane < kTileColumns / kCount) of_warps[warp][piece * kCount + i] = sum[i];
    }
    __syncthreads();
    const int64_t mine = int64_t{blockIdx.x} * kTileColumns + threadIdx.x;
    if (threadIdx.x < kTileColumns && mine < t.columns) {
      float all = 0;
      for (int w = 0; w < kThreads / kLanes; ++w) all += of_warps[w][threadIdx.x];
      t.sums[blockIdx.y * t.columns + mine] = all;
    }
  }
  if (t.transposed == nullptr) return;
  turn_bytes(low);
  turn_bytes(high);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    quads[piece * kCount + i][quad] = low[i];
    quads[piece * kCount + 4 + i][quad] = high[i];
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t to_row = int64_t{blockIdx.y} * kTileRows + lane * kRows;
  if (to_row >= t.rows) return;
  for (int c = warp; c < kTileColumns; c += kThreads / kLanes) {
    const int64_t from = int64_t{blockIdx.x} * kTileColumns + c;
    if (from < t.columns) *reinterpret_cast<uint32_t*>(t.transposed + from * t.rows + to_row) = quads[c][lane];
  }
}

__global__ void numbers_kernel(Fp8Numbers n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n.count) fp8_number(n, n.first + i);
}

template <class Source>
void launch(const Source& source, const Fp8Tiles& t, void* stream) {
  if (t.rows == 0 || t.columns == 0) return;
  const dim3 grid(static_cast<unsigned>((t.columns + kTileColumns - 1) / kTileColumns),
                  static_cast<unsigned>(fp8_tile_rows(t.rows)));
  const auto queue = static_cast<GpuStream>(stream);
  const bool by_rows = t.largest_of_rows != nullptr || t.largest_of_columns != nullptr, fine = t.type == Fp8Type::e4m3;
  if (by_rows && t.straight == nullptr && t.transposed == nullptr) {
    largest_kernel<Source><<<grid, kThreads, 0, queue>>>(source, t);
  } else if (by_rows && fine) {
    tiles_kernel<Source, Fp8Type::e4m3, true><<<grid, kThreads, 0, queue>>>(source, t);
  } else if (by_rows) {
    tiles_kernel<Source, Fp8Type::e5m2, true><<<grid, kThreads, 0, queue>>>(source, t);
  } else if (fine) {
    tiles_kernel<Source, Fp8Type::e4m3, false><<<grid, kThreads, 0, queue>>>(source, t);
  } else {
    tiles_kernel<Source, Fp8Type::e5m2, false><<<grid, kThreads, 0, queue>>>(source, t);
  }
  check_launch("fp8 tiles");
}

template <Activation KIND>
void activation(const Bfloat16* x, const Bfloat16* upstream, Bfloat16* gradient, const Fp8Tiles& t, void* stream) {
  if (upstream != nullptr) {
    launch(Activated<KIND, true>{x, upstream, gradient, t.columns}, t, stream);
  } else {
    launch(Activated<KIND, false>{x, nullptr, nullptr, t.columns}, t, stream);
  }
}

}  // namespace

int64_t fp8_tile_rows(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

void fp8_values_gpu(const Bfloat16* x, const Fp8Tiles& tiles, void* stream) {
  launch(Values{x, tiles.columns}, tiles, stream);
}

void fp8_norm_gpu(const Fp8NormInput& norm, const Fp8Tiles& tiles, void* stream) {
  launch(Norms{norm, tiles.columns}, tiles, stream);
}

void fp8_activation_gpu(Activation kind, const Bfloat16* x, const Bfloat16* upstream, Bfloat16* gradient,
                        const Fp8Tiles& tiles, void* stream) {
  if (kind == Activation::gelu_tanh) return activation<Activation::gelu_tanh>(x, upstream, gradient, tiles, stream);
  if (kind == Activation::gelu_erf) return activation<Activation::gelu_erf>(x, upstream, gradient, tiles, stream);
  activation<Activation::gated_silu>(x, upstream, gradient, tiles, stream);
}

void fp8_numbers_gpu(const Fp8Numbers& numbers, void* stream) {
  if (numbers.count == 0) return;
  const auto blocks = static_cast<unsigned>((numbers.count + kThreads - 1) / kThreads);
  numbers_kernel<<<blocks, kThreads, 0, static_cast<GpuStream>(stream)>>>(numbers);
  check_launch("fp8 numbers");
}

}  // namespace hyperion::blocks

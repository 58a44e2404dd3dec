#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/optim/update_math.h"

namespace hyperion::optim {

using namespace kernels;
namespace {

constexpr int kThreads = 256, kStep = 4;  // elements a thread handles at once

__device__ inline void load_four(const float* from, float (&out)[kStep]) { load_floats(from, out); }
template <class T>
__device__ inline void load_four(const T* from, float (&out)[kStep]) {
  const uint2 raw = *reinterpret_cast<const uint2*>(from);
  out[0] = widen(raw.x & 0xffffu, T{}), out[1] = widen(raw.x >> 16, T{});
  out[2] = widen(raw.y & 0xffffu, T{}), out[3] = widen(raw.y >> 16, T{});
}
__device__ inline void store_four(float* to, const float (&in)[kStep]) { store_floats(to, in); }
template <class T>
__device__ inline void store_four(T* to, const float (&in)[kStep]) {
  *reinterpret_cast<uint2*>(to) = {narrow_pair(in[0], in[1], T{}), narrow_pair(in[2], in[3], T{})};
}

struct AdamWRule {
  using Numbers = AdamWNumbers;
  static constexpr bool kSecond = true;
  __device__ static float updated(float master, float gradient, float& first, float& second, const Numbers& n) {
    return adamw_element(master, gradient, first, second, n);
  }
};

struct SgdNumbersWithDecay : SgdNumbers {
  float decay;
};

struct SgdRule {
  using Numbers = SgdNumbersWithDecay;
  static constexpr bool kSecond = false;
  __device__ static float updated(float master, float gradient, float& first, float&, const Numbers& n) {
    first = n.momentum * first + gradient;
    return master * (1 - n.lr * n.decay) - n.lr * first;
  }
};

template <class Rule, class Weight, class Gradient>
__device__ inline void update_one(const UpdateEntry& entry, int64_t i, float scale,
                                  const typename Rule::Numbers& numbers) {
  float second = Rule::kSecond ? entry.second[i] : 0.0f;
  const float gradient = to_float(static_cast<const Gradient*>(entry.gradient)[i]) * scale;
  const float updated = Rule::updated(entry.master[i], gradient, entry.first[i], second, numbers);
  if constexpr (Rule::kSecond) entry.second[i] = second;
  entry.master[i] = updated;
  if (entry.weight != nullptr) store(static_cast<Weight*>(entry.weight)[i], updated);
}

template <class Rule, class Weight, class Gradient, class Numbers>
__global__ void __launch_bounds__(kThreads) update_kernel(UpdateTable table, UpdateNumbers<Numbers> all) {
  if (all.state != nullptr && all.state->skipped != 0) return;
  // Backwards: the gradients whose squares were summed last are still near.
  const UpdateChunk chunk = table.chunks[gridDim.x - 1 - blockIdx.x];
  const UpdateEntry entry = table.entries[chunk.entry];
  const float scale = *all.scale;
  typename Rule::Numbers numbers{};
  static_cast<Numbers&>(numbers) = *all.numbers;
  numbers.decay = entry.decay;
  const int64_t begin = chunk.chunk * kUpdateChunk;
  const int64_t end = begin + kUpdateChunk < entry.count ? begin + kUpdateChunk : entry.count;
  const auto* gradient = static_cast<const Gradient*>(entry.gradient);
  auto* weight = static_cast<Weight*>(entry.weight);
  const auto low_bits = reinterpret_cast<uintptr_t>(entry.master) | reinterpret_cast<uintptr_t>(entry.first) |
                        reinterpret_cast<uintptr_t>(entry.second) | reinterpret_cast<uintptr_t>(gradient) * 2 |
                        reinterpret_cast<uintptr_t>(weight) * 2;
  int64_t whole = begin;  // up to here by four elements at once
  if (low_bits % 16 == 0) {
    whole = begin + (end - begin) / kStep * kStep;
#pragma unroll 2
    for (int64_t i = begin + int64_t{threadIdx.x} * kStep; i < whole; i += kThreads * kStep) {
      float g[kStep], master[kStep], first[kStep], second[kStep] = {0, 0, 0, 0};
      load_four(gradient + i, g);
      load_four(entry.master + i, master);
      load_four(entry.first + i, first);
      if constexpr (Rule::kSecond) load_four(entry.second + i, second);
#pragma unroll
      for (int k = 0; k < kStep; ++k) master[k] = Rule::updated(master[k], g[k] * scale, first[k], second[k], numbers);
      store_four(entry.master + i, master);
      store_four(entry.first + i, first);
      if constexpr (Rule::kSecond) store_four(entry.second + i, second);
      if (weight != nullptr) store_four(weight + i, master);
    }
  }
  for (int64_t i = whole + threadIdx.x; i < end; i += kThreads)
    update_one<Rule, Weight, Gradient>(entry, i, scale, numbers);
}

template <class Gradient>
__global__ void __launch_bounds__(kThreads) squares_kernel(UpdateTable table, float* partial) {
  const UpdateChunk chunk = table.chunks[blockIdx.x];
  const UpdateEntry& entry = table.entries[chunk.entry];
  const auto* gradient = static_cast<const Gradient*>(entry.gradient);
  const int64_t begin = chunk.chunk * kUpdateChunk;
  const int64_t end = begin + kUpdateChunk < entry.count ? begin + kUpdateChunk : entry.count;
  float sum[1] = {0};
  int64_t whole = begin;
  if (reinterpret_cast<uintptr_t>(gradient) % 16 == 0) {
    constexpr int kCount = kWide<Gradient>;
    whole = begin + (end - begin) / kCount * kCount;
#pragma unroll 4
    for (int64_t i = begin + int64_t{threadIdx.x} * kCount; i < whole; i += kThreads * kCount) {
      float values[kCount];
      load_floats(gradient + i, values);
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum[0] += values[k] * values[k];
    }
  }
  for (int64_t i = whole + threadIdx.x; i < end; i += kThreads) sum[0] += to_float(gradient[i]) * to_float(gradient[i]);
  block_sums(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum[0];
}

__global__ void __launch_bounds__(1024)
    clip_kernel(const float* partial, int64_t count, ClipNumbers n, float* norm, float* scale) {
  float sum[1] = {0};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum[0] += partial[i];
  block_sums(sum);
  if (threadIdx.x != 0) return;
  const float loss_scale = n.state != nullptr ? n.state->scale : n.loss_scale;
  const float length = sqrtf(sum[0]) / loss_scale, factor = n.limit / (length + 1e-6f);
  *norm = length;
  // Written so that a norm that is not a number gives a factor that is none either.
  *scale = (n.limit > 0 && !(factor >= 1.0f) ? factor : 1.0f) / loss_scale;
  if (n.state == nullptr) return;
  advance_loss_scale(*n.state, /*overflowed=*/!(length < INFINITY), n.grow_after);
  if (n.numbers == nullptr) return;
  const double updates = n.state->updates;
  n.numbers->correction1 = static_cast<float>(1 - pow(static_cast<double>(n.numbers->beta1), updates));
  n.numbers->correction2 = static_cast<float>(1 - pow(static_cast<double>(n.numbers->beta2), updates));
}

}  // namespace

template <class Weight, class Gradient>
void adamw_all_gpu(const UpdateTable& table, const UpdateNumbers<AdamWNumbers>& numbers, void* stream) {
  if (table.count == 0) return;
  update_kernel<AdamWRule, Weight, Gradient, AdamWNumbers>
      <<<static_cast<unsigned>(table.count), kThreads, 0, static_cast<GpuStream>(stream)>>>(table, numbers);
  check_launch("adamw");
}

template <class Weight, class Gradient>
void sgd_all_gpu(const UpdateTable& table, const UpdateNumbers<SgdNumbers>& numbers, void* stream) {
  if (table.count == 0) return;
  update_kernel<SgdRule, Weight, Gradient, SgdNumbers>
      <<<static_cast<unsigned>(table.count), kThreads, 0, static_cast<GpuStream>(stream)>>>(table, numbers);
  check_launch("sgd");
}

template <class Gradient>
void squares_all_gpu(const UpdateTable& table, float* partial, void* stream) {
  if (table.count == 0) return;
  squares_kernel<Gradient>
      <<<static_cast<unsigned>(table.count), kThreads, 0, static_cast<GpuStream>(stream)>>>(table, partial);
  check_launch("sum of squares");
}

void clip_factor_gpu(const float* partial, int64_t count, const ClipNumbers& numbers, float* norm, float* scale,
                     void* stream) {
  clip_kernel<<<1, 1024, 0, static_cast<GpuStream>(stream)>>>(partial, count, numbers, norm, scale);
  check_launch("clip_factor");
}

template void adamw_all_gpu<float, float>(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*);
template void sgd_all_gpu<float, float>(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*);
template void adamw_all_gpu<Bfloat16, Bfloat16>(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*);
template void sgd_all_gpu<Bfloat16, Bfloat16>(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*);
template void adamw_all_gpu<Bfloat16, float>(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*);
template void sgd_all_gpu<Bfloat16, float>(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*);
template void adamw_all_gpu<Half, Half>(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*);
template void sgd_all_gpu<Half, Half>(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*);
template void adamw_all_gpu<Half, float>(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*);
template void sgd_all_gpu<Half, float>(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*);
template void squares_all_gpu<float>(const UpdateTable&, float*, void*);
template void squares_all_gpu<Bfloat16>(const UpdateTable&, float*, void*);
template void squares_all_gpu<Half>(const UpdateTable&, float*, void*);

}  // namespace hyperion::optim

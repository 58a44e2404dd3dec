// 32 lanes a token: there are tens of experts, and thousands of tokens.
#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/top_k_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 128, kTokens = kThreads / kLanes;  // of a block

__device__ inline Ranked first_of_lanes(Ranked mine) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const Ranked other{exchange(mine.logit, distance), __float_as_int(exchange(__int_as_float(mine.expert), distance))};
    if (before(other, mine)) mine = other;
  }
  return mine;
}

template <class T>
__device__ inline float sum_of_exponentials(const T* logits, int32_t experts, float highest, int lane) {
  float sum = 0;
  for (int32_t e = lane; e < experts; e += kLanes) sum += expf(to_float(logits[e]) - highest);
  return warp_sum(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* logits, TopKShape s, int64_t* experts, float* weights) {
  const int64_t token = blockIdx.x * int64_t{kTokens} + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  if (token >= s.tokens) return;  // all lanes of it
  const T* mine = logits + token * s.experts;
  int64_t* expert_of = experts + token * s.choices;
  float* weight_of = weights + token * s.choices;
  Ranked last = kBeforeAll;
  float highest = 0, chosen = 0;
  for (int32_t c = 0; c < s.choices; ++c) {
    Ranked best = kBehindAll;
    for (int32_t e = lane; e < s.experts; e += kLanes) {
      const Ranked each = ranked(to_float(mine[e]), e);
      if (before(last, each) && before(each, best)) best = each;
    }
    best = first_of_lanes(best);
    if (c == 0) highest = best.logit;
    const float size = expf(to_float(mine[best.expert]) - highest);
    chosen += size;
    if (lane == 0) expert_of[c] = best.expert, weight_of[c] = size;
    last = best;
  }
  const float all = s.normalized ? chosen : sum_of_exponentials(mine, s.experts, highest, lane);
  if (lane != 0) return;
  for (int32_t c = 0; c < s.choices; ++c) weight_of[c] /= all;
}

template <class T>
__global__ void __launch_bounds__(kThreads) backward_kernel(TopKBackward<T> t, TopKShape s) {
  const int64_t token = blockIdx.x * int64_t{kTokens} + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  if (token >= s.tokens) return;
  const T* mine = t.logits + token * s.experts;
  const int64_t* expert_of = t.experts + token * s.choices;
  const float *weight_of = t.weights + token * s.choices, *above = t.above + token * s.choices;
  float dot = 0;
  for (int32_t c = 0; c < s.choices; ++c) dot += weight_of[c] * above[c];
  const float highest = to_float(mine[expert_of[0]]);
  const float all = s.normalized ? 1.0f : sum_of_exponentials(mine, s.experts, highest, lane);
  for (int32_t e = lane; e < s.experts; e += kLanes) {
    float gradient = s.normalized ? 0.0f : -dot * expf(to_float(mine[e]) - highest) / all;
    for (int32_t c = 0; c < s.choices; ++c)
      if (expert_of[c] == e) gradient = weight_of[c] * (above[c] - dot);
    store(t.gradient[token * s.experts + e], gradient);
  }
}

unsigned blocks_for(int64_t tokens) { return static_cast<unsigned>((tokens + kTokens - 1) / kTokens); }

}  // namespace

template <class T>
void top_k_gpu(const T* logits, const TopKShape& shape, int64_t* experts, float* weights, void* stream) {
  if (shape.tokens == 0) return;
  forward_kernel<<<blocks_for(shape.tokens), kThreads, 0, static_cast<GpuStream>(stream)>>>(logits, shape, experts,
                                                                                            weights);
  check_launch("top_k");
}

template <class T>
void top_k_backward_gpu(const TopKBackward<T>& tensors, const TopKShape& shape, void* stream) {
  if (shape.tokens == 0) return;
  backward_kernel<<<blocks_for(shape.tokens), kThreads, 0, static_cast<GpuStream>(stream)>>>(tensors, shape);
  check_launch("top_k's gradient");
}

template void top_k_gpu(const float*, const TopKShape&, int64_t*, float*, void*);
template void top_k_backward_gpu(const TopKBackward<float>&, const TopKShape&, void*);
template void top_k_gpu(const Bfloat16*, const TopKShape&, int64_t*, float*, void*);
template void top_k_backward_gpu(const TopKBackward<Bfloat16>&, const TopKShape&, void*);
template void top_k_gpu(const Half*, const TopKShape&, int64_t*, float*, void*);
template void top_k_backward_gpu(const TopKBackward<Half>&, const TopKShape&, void*);

}  // namespace hyperion::kernels

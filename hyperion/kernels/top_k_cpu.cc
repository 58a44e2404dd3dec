#include <ATen/Parallel.h>

#include <algorithm>

#include "hyperion/kernels/top_k_math.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kTokensAtOnce = 64;  // tokens

template <class T>
float sum_of_exponentials(const T* logits, int32_t experts, float highest) {
  float sum = 0;
  for (int32_t e = 0; e < experts; ++e) sum += std::exp(to_float(logits[e]) - highest);
  return sum;
}

}  // namespace

template <class T>
void top_k_cpu(const T* logits, const TopKShape& s, int64_t* experts, float* weights) {
  at::parallel_for(0, s.tokens, kTokensAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const T* mine = logits + token * s.experts;
      Ranked last = kBeforeAll;
      float highest = 0, chosen = 0;
      for (int32_t c = 0; c < s.choices; ++c) {
        Ranked best = kBehindAll;
        for (int32_t e = 0; e < s.experts; ++e) {
          const auto each = ranked(to_float(mine[e]), e);
          if (before(last, each) && before(each, best)) best = each;
        }
        if (c == 0) highest = best.logit;
        experts[token * s.choices + c] = best.expert;
        chosen += weights[token * s.choices + c] = std::exp(to_float(mine[best.expert]) - highest);
        last = best;
      }
      const float all = s.normalized ? chosen : sum_of_exponentials(mine, s.experts, highest);
      for (int32_t c = 0; c < s.choices; ++c) weights[token * s.choices + c] /= all;
    }
  });
}

template <class T>
void top_k_backward_cpu(const TopKBackward<T>& t, const TopKShape& s) {
  at::parallel_for(0, s.tokens, kTokensAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t first = token * s.choices;
      const T* mine = t.logits + token * s.experts;
      T* out = t.gradient + token * s.experts;
      float dot = 0;
      for (int32_t c = 0; c < s.choices; ++c) dot += t.weights[first + c] * t.above[first + c];
      const float highest = to_float(mine[t.experts[first]]);
      const float all = s.normalized ? 1 : sum_of_exponentials(mine, s.experts, highest);
      for (int32_t e = 0; e < s.experts; ++e)
        store(out[e], s.normalized ? 0.0f : -dot * std::exp(to_float(mine[e]) - highest) / all);
      for (int32_t c = 0; c < s.choices; ++c)
        store(out[t.experts[first + c]], t.weights[first + c] * (t.above[first + c] - dot));
    }
  });
}

template void top_k_cpu(const float*, const TopKShape&, int64_t*, float*);
template void top_k_backward_cpu(const TopKBackward<float>&, const TopKShape&);
template void top_k_cpu(const Bfloat16*, const TopKShape&, int64_t*, float*);
template void top_k_backward_cpu(const TopKBackward<Bfloat16>&, const TopKShape&);
template void top_k_cpu(const Half*, const TopKShape&, int64_t*, float*);
template void top_k_backward_cpu(const TopKBackward<Half>&, const TopKShape&);

}  // namespace hyperion::kernels

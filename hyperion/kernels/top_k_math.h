// The raw entry points of a router's choice.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

struct TopKShape {
  int64_t tokens;
  int32_t experts, choices;
  bool normalized;
};

// The order of experts: by logit, of equals the lower number first; what is not a number comes last. Each choice is the
// first of those behind the choice before it, so that nothing marks what is taken, and every choice is an expert.
struct Ranked {
  float logit;
  int32_t expert;
};
constexpr float kHighest = std::numeric_limits<float>::infinity();
constexpr Ranked kBeforeAll{kHighest, -1}, kBehindAll{-kHighest, std::numeric_limits<int32_t>::max()};
constexpr bool before(const Ranked& a, const Ranked& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}
constexpr Ranked ranked(float logit, int32_t expert) { return {logit == logit ? logit : -kHighest, expert}; }

template <class T>
void top_k_cpu(const T* logits, const TopKShape& shape, int64_t* experts, float* weights);
template <class T>
void top_k_gpu(const T* logits, const TopKShape& shape, int64_t* experts, float* weights, void* stream);

// Of the logits, from what the forward gave and the weights' gradient `above`.
template <class T>
struct TopKBackward {
  const T* logits;
  const int64_t* experts;
  const float *weights, *above;
  T* gradient;
};
template <class T>
void top_k_backward_cpu(const TopKBackward<T>& tensors, const TopKShape& shape);
template <class T>
void top_k_backward_gpu(const TopKBackward<T>& tensors, const TopKShape& shape, void* stream);

}  // namespace hyperion::kernels

// Sizes and inputs that the entries of `bench kernels` share.
#pragma once
#include <ATen/ops/randn.h>

#include <cmath>
#include <string>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/bench/kernel_operations.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/gelu.h"

namespace hyperion::bench {

using Place = OperationPlace;

// By size: of a GPU, or of a CPU.
template <class T>
T choose(const Place& place, const T (&gpu)[3], const T (&cpu)[3]) {
  return (place.gpu() ? gpu : cpu)[static_cast<int>(place.size)];
}

inline double width_of(const Place& place) { return static_cast<double>(at::elementSize(place.type)); }
inline at::Tensor random(const Place& place, at::IntArrayRef shape) { return at::randn(shape, place.options()); }
inline at::Tensor trained(const at::Tensor& tensor) { return tensor.requires_grad_(true); }

// GELU as models run it, of the input plus the bias where there is one: their own pass on a CPU, the one that fused
// blocks are made of on a GPU.
inline at::Tensor run_gelu(const at::Tensor& input, const at::Tensor& bias = {}) {
  if (input.is_cuda()) return kernels::activation(input, kernels::Activation::gelu_tanh, bias);
  return kernels::gelu(bias.defined() ? input.add(bias) : input);
}

struct Table {
  int64_t rows, width;
  int64_t elements() const { return rows * width; }
  std::string text() const { return base::format("{} x {}", rows, width); }
};

// Activations of a batch: GPT-2's narrowest, then 64 MiB and 320 MiB in 16 bits.
inline Table activations(const Place& place) {
  if (place.shape) return {place.shape->batch * place.shape->length, place.shape->width};
  return choose<Table>(place, {{1024, 768}, {16384, 2048}, {32768, 5120}}, {{32, 128}, {256, 512}, {1024, 1024}});
}

// Feed-forward layers of GPT-2 and GPT-2 Large.
struct Mlp {
  int64_t tokens, width, inner;
};
inline Mlp mlp_of(const Place& place) {
  if (place.shape) return {place.shape->batch * place.shape->length, place.shape->width, 4 * place.shape->width};
  return choose<Mlp>(place, {{1024, 768, 3072}, {8192, 1280, 5120}, {32768, 1280, 5120}},
                     {{32, 64, 256}, {128, 128, 512}, {256, 256, 1024}});
}
// A matrix whose products keep the size of what they take in.
inline at::Tensor matrix(const Place& place, int64_t out, int64_t in) {
  return trained(random(place, {out, in}).mul_(1 / std::sqrt(static_cast<double>(in))).detach());
}

struct HeadShape {
  int64_t batch, heads, length, width;
  std::string text() const { return base::format("{} x {} x {} x {}", batch, heads, length, width); }
  double elements() const { return static_cast<double>(batch * heads * length * width); }
};

// tinyllama-small's, GPT-2's and Qwen2.5 3B's.
inline HeadShape heads_of(const Place& place) {
  return choose<HeadShape>(place, {{8, 8, 128, 64}, {32, 12, 1024, 64}, {4, 16, 2048, 128}},
                           {{1, 2, 32, 32}, {2, 4, 128, 64}, {2, 8, 256, 64}});
}
inline double held_heads(const Place& place) { return 16 * heads_of(place).elements() * width_of(place); }

}  // namespace hyperion::bench

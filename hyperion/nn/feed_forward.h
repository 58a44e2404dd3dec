// The gated feed-forward part of Llama and its kin: down(silu(gate(x)) * up(x)) (Shazeer, 2020).
#pragma once
#include "hyperion/nn/layers.h"

namespace hyperion::nn {

struct GatedShape {
  int64_t width, inner;
  bool bias = false;
  Init init, residual_init;  // of gate and up; of down
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};

class GatedFeedForward final : public Module {
 public:
  explicit GatedFeedForward(const GatedShape& shape);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  const Linear& gate() const { return *gate_; }
  const Linear& up() const { return *up_; }
  const Linear& down() const { return *down_; }

 private:
  std::shared_ptr<Linear> gate_, up_, down_;
};

}  // namespace hyperion::nn

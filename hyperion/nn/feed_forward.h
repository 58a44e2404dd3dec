// The gated feed-forward part of Llama and its kin: down(silu(gate(x)) * up(x)) (Shazeer, 2020).
#pragma once
#include "hyperion/nn/fused.h"

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

  // residual + the whole part of norm(residual), each step one operation; the pass must allow it.
  bool fuses(const Pass& pass) const { return nn::fuses(pass, 0, {gate_.get(), up_.get(), down_.get()}); }
  at::Tensor fused(const at::Tensor& residual, const kernels::NormWeights& norm) const;

  void leave_layout() { laid_out_by_parent_ = true; }  // the parent lays its weights out, with those of others

 private:
  void lay_out() override {
    if (!laid_out_by_parent_) lay_together({gate_.get(), up_.get()});
  }
  bool laid_out_by_parent_ = false;
  std::shared_ptr<Linear> gate_, up_, down_;
};

}  // namespace hyperion::nn

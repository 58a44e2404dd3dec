// The gated feed-forward part of Llama and its kin: down(silu(gate(x)) * up(x)) (Shazeer, 2020).
#pragma once
#include "hyperion/nn/pre_norm.h"

namespace hyperion::nn {

struct GatedShape {
  int64_t width, inner;
  bool bias = false;
  Init init, residual_init;  // of gate and up; of down
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};

class GatedFeedForward final : public Module {
 public:
  // Behind a block's norm it is a half of that block, else (an expert) the part alone.
  explicit GatedFeedForward(const GatedShape& shape, std::shared_ptr<Norm> norm = nullptr);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return half_.out(half_.in(input, pass), Activation::gated_silu, pass);
  }
  const Projection& gate() const { return *gate_; }
  const Projection& up() const { return *up_; }
  const Projection& down() const { return *down_; }

  void leave_layout() { laid_out_by_parent_ = true; }  // the parent lays its weights out, with those of others

 private:
  void lay_out() override {
    if (!laid_out_by_parent_) half_.lay_out();
  }
  std::shared_ptr<Projection> add_linear(const char* name, int64_t in, int64_t out, bool bias, Init init);

  bool laid_out_by_parent_ = false;
  std::shared_ptr<Projection> gate_, up_, down_;
  PreNorm half_;
};

}  // namespace hyperion::nn

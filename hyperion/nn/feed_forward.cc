#include "hyperion/nn/feed_forward.h"

namespace hyperion::nn {

GatedFeedForward::GatedFeedForward(const GatedShape& shape, std::shared_ptr<Norm> norm)
    : gate_(add_linear(shape.gate, shape.width, shape.inner, shape.bias, shape.init)),
      up_(add_linear(shape.up, shape.width, shape.inner, shape.bias, shape.init)),
      down_(add_linear(shape.down, shape.inner, shape.width, shape.bias, shape.residual_init)),
      half_(std::move(norm), {gate_, up_}, down_) {}

std::shared_ptr<Projection> GatedFeedForward::add_linear(const char* name, int64_t in, int64_t out, bool bias,
                                                         Init init) {
  return register_module(name, std::make_shared<Linear>(in, out, bias, init));
}

}  // namespace hyperion::nn

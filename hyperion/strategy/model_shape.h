// What a model costs, as plain numbers: the planner, the step line and the reports reckon with these.
#pragma once
#include <cstdint>

namespace hyperion::strategy {

struct ModelShape {
  int64_t parameters = 0;  // a tied parameter counts once
  int64_t layers = 0, width = 0, vocabulary = 0;
  double forward_flops_token = 0;  // multiply and add count as two; causal attention counts by half
  double backward_flops_token = 0;
  double flops_token() const { return forward_flops_token + backward_flops_token; }
};

// A decoder-only transformer at a sequence length: products with `matrix_parameters` weights a token, plus attention.
ModelShape decoder_shape(int64_t parameters, int64_t matrix_parameters, int64_t layers, int64_t width,
                         int64_t vocabulary, int64_t length);

}  // namespace hyperion::strategy

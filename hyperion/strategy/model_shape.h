// What a model costs, as plain numbers: the planner, the step line and the reports reckon with these.
#pragma once
#include <cstdint>

namespace hyperion::strategy {

struct ModelShape {
  int64_t parameters = 0;                         // a tied parameter counts once
  int64_t trained = 0;                            // of them, or of an adapter beside them
  int64_t of_experts = 0;                         // of them, in experts of mixtures, which ep shares out
  int64_t layers = 0, width = 0, vocabulary = 0;  // vocabulary: width of the logits, so the classes of an image model
  int64_t context = 0;                            // longest sequence; 0 for an image model
  int64_t image = 0;                              // pixels of an image's side; 0 for a language model
  // A token of a sequence, or an image: what `length` tokens or one image hold.
  double forward_flops_token = 0;   // multiply and add count as two; causal attention counts by half
  double weight_flops_token = 0;    // of the forward, products with weights; the rest is attention's
  double backward_flops_token = 0;  // gradients of inputs, and of the weights that are trained
  // Elements, in the compute type, that the forward of a token or an image keeps for the backward where no memory
  // technique is on; a model of them, near the truth for models whose width is above some hundred.
  double activations_token = 0;
  double activation_bytes(int64_t units, int64_t element) const {
    return activations_token * static_cast<double>(units) * static_cast<double>(element);
  }
  double flops_token() const { return forward_flops_token + backward_flops_token; }
};

// A decoder-only transformer at a sequence length: products with `matrix_parameters` weights a token, plus attention.
ModelShape decoder_shape(int64_t parameters, int64_t matrix_parameters, int64_t layers, int64_t width,
                         int64_t vocabulary, int64_t length);

// A classifier of images that multiplies and adds `products` times an image, `attention` of them without a weight.
ModelShape image_shape(int64_t parameters, int64_t layers, int64_t width, int64_t classes, double products,
                       double attention = 0);

// The same model frozen, beside an adapter of `parameters` that multiplies and adds `products` times a token or an
// image: nobody computes the gradients of frozen weights. Those of all inputs count, also where no trained weight lies
// below them.
ModelShape with_adapter(ModelShape shape, int64_t parameters, double products);

}  // namespace hyperion::strategy

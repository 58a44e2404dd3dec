#include "hyperion/strategy/model_shape.h"

namespace hyperion::strategy {

ModelShape decoder_shape(int64_t parameters, int64_t matrix_parameters, int64_t layers, int64_t width,
                         int64_t vocabulary, int64_t length) {
  ModelShape shape{
      .parameters = parameters, .trained = parameters, .layers = layers, .width = width, .vocabulary = vocabulary};
  // Scores and weighted values: two products of 2 * width * length a token and layer, half of them masked away.
  const double attention = 0.5 * 4.0 * static_cast<double>(layers * width * length);
  shape.weight_flops_token = 2.0 * static_cast<double>(matrix_parameters);
  shape.forward_flops_token = shape.weight_flops_token + attention;
  shape.backward_flops_token = 2 * shape.forward_flops_token;
  return shape;
}

ModelShape image_shape(int64_t parameters, int64_t layers, int64_t width, int64_t classes, double products,
                       double attention) {
  ModelShape shape{
      .parameters = parameters, .trained = parameters, .layers = layers, .width = width, .vocabulary = classes};
  shape.weight_flops_token = 2 * (products - attention);
  shape.forward_flops_token = 2 * products;
  shape.backward_flops_token = 2 * shape.forward_flops_token;
  return shape;
}

ModelShape with_adapter(ModelShape shape, int64_t parameters, double products) {
  shape.trained = parameters;
  shape.backward_flops_token = 2 * shape.forward_flops_token - shape.weight_flops_token + 4 * products;
  shape.forward_flops_token += 2 * products;
  return shape;
}

}  // namespace hyperion::strategy

#include "hyperion/strategy/model_shape.h"

#include <gtest/gtest.h>

namespace hyperion::strategy {
namespace {

// By hand: 2 layers of width 8, 10 tokens of vocabulary, 4 of length. A block's matrices hold 8*24 + 8*8 + 8*32 + 32*8
// = 768 weights, the tied output 80: 1616 in all. Attention: 2 layers x 2 products x 2*8*4 = 256, half of it masked:
// 128.
TEST(ModelShape, counts_a_small_decoder_as_by_hand) {
  const ModelShape shape = decoder_shape(1700, 1616, 2, 8, 10, 4);
  EXPECT_EQ(shape.parameters, 1700);
  EXPECT_EQ(shape.layers, 2);
  EXPECT_EQ(shape.width, 8);
  EXPECT_EQ(shape.vocabulary, 10);
  EXPECT_EQ(shape.forward_flops_token, 2 * 1616 + 128);
  EXPECT_EQ(shape.backward_flops_token, 2 * (2 * 1616 + 128));
  EXPECT_EQ(shape.flops_token(), 3 * (2 * 1616 + 128));
}

// The same model frozen, with adapters of rank 2 beside a block's four products (8 to 24, 8 to 8, 8 to 32, 32 to 8): 2
// * (32 + 16 + 40 + 40) = 256 a layer, 512 in all. Forward: all 1616 weights, the 512 and attention. Backward: the
// gradients of the inputs of all of them, attention's twice, and of the weights those of the 512 alone.
TEST(ModelShape, of_an_adapter_counts_the_gradients_of_its_weights_alone) {
  const ModelShape shape = with_adapter(decoder_shape(1700, 1616, 2, 8, 10, 4), 512, 512);
  EXPECT_EQ(shape.parameters, 1700);
  EXPECT_EQ(shape.trained, 512);
  EXPECT_EQ(shape.forward_flops_token, 2 * 1616 + 2 * 512 + 128);
  EXPECT_EQ(shape.backward_flops_token, 2 * 1616 + 2 * 512 + 2 * 128 + 2 * 512);
}

TEST(ModelShape, of_images_tells_attention_from_products_with_weights) {
  const ModelShape shape = image_shape(900, 2, 8, 10, /*products=*/5000, /*attention=*/700);
  EXPECT_EQ(shape.flops_token(), 3 * 2 * 5000);
  EXPECT_EQ(with_adapter(shape, 0, 0).flops_token(), 2 * 2 * 4300 + 3 * 2 * 700);
}

TEST(ModelShape, holds_large_models) {
  const int64_t parameters = 1'000'000'000'000;
  const ModelShape shape = decoder_shape(parameters, parameters, 128, 65'536, 1 << 20, 1 << 20);
  EXPECT_EQ(shape.forward_flops_token, 2e12 + 2.0 * 128 * 65'536 * (1 << 20));
}

}  // namespace
}  // namespace hyperion::strategy

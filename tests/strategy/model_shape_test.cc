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

TEST(ModelShape, holds_large_models) {
  const int64_t parameters = 1'000'000'000'000;
  const ModelShape shape = decoder_shape(parameters, parameters, 128, 65'536, 1 << 20, 1 << 20);
  EXPECT_EQ(shape.forward_flops_token, 2e12 + 2.0 * 128 * 65'536 * (1 << 20));
}

}  // namespace
}  // namespace hyperion::strategy

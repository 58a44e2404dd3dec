#include "hyperion/bench/random_training.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/models/model.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/stepper.h"

namespace hyperion::bench {
namespace {

// By hand: 33,664 weights that a token is multiplied with, and 3,072 operations of attention (account_test.cc); an
// adapter of rank 4 beside all linear layers holds 4,096.
TEST(RandomTraining, counts_no_gradients_of_weights_that_an_adapter_freezes) {
  train::RunConfig config;
  config.model.layers = 2, config.model.heads = 2, config.model.width = 32, config.model.context = 48;
  config.train.batch = 2, config.train.length = 24;
  EXPECT_EQ(RandomTraining(config, at::kCPU).flops(), 48.0 * 3 * (2 * 33664 + 3072));
  config.lora.rank = 4;
  const RandomTraining adapted(config, at::kCPU);
  EXPECT_EQ(adapted.flops(), 48.0 * (2 * 2 * 33664 + 3 * 3072 + 6 * 4096));
  EXPECT_EQ(adapted.shape().trained, 4096);
}

TEST(RandomTraining, is_of_the_model_that_the_recipe_goes_on_from) {
  train::RunConfig config;
  config.model.from = "no-such-folder";
  EXPECT_THROW(RandomTraining(config, at::kCPU), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::bench

#include "hyperion/nn/image_layers.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "tests/support/devices.h"

namespace hyperion::nn {
namespace {

using testing::relative_error;

Pass training(bool reference = false) {
  Pass pass;
  pass.training = true, pass.reference = reference;
  return pass;
}

std::shared_ptr<BatchNorm2d> batch_norm(int64_t channels) {
  auto norm = std::make_shared<BatchNorm2d>(channels);
  norm->initialise(1);
  return norm;
}

at::Tensor buffer(const Module& module, const std::string& name) { return module.named_buffers()[name]; }

// Output, gradients and running statistics after two batches.
std::vector<at::Tensor> results(bool train, bool reference, at::ScalarType type) {
  auto norm = batch_norm(5);
  norm->move_to(at::kCPU, type);
  std::vector<at::Tensor> list;
  for (const int seed : {1, 2}) {
    const auto random = [&](int stream) {
      std::mt19937 generator(static_cast<unsigned>(10 * seed + stream));
      std::normal_distribution<float> normal;
      auto values = at::zeros({3, 5, 4, 6});
      for (int64_t i = 0; i < values.numel(); ++i) values.mutable_data_ptr<float>()[i] = normal(generator);
      return values.to(type);
    };
    auto input = random(0).mul(2).add(1).requires_grad_();
    Pass pass = training(reference);
    pass.training = train;
    const auto output = norm->forward(input, pass);
    output.backward(random(1));
    list.insert(list.end(), {output.detach(), input.grad()});
  }
  for (auto& parameter : norm->list_parameters()) list.push_back(parameter.tensor.grad());
  for (const auto& each : norm->buffers()) list.push_back(each);
  return list;
}

TEST(BatchNorm, agrees_with_its_reference_in_value_gradient_and_running_statistics) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const bool train : {true, false}) {
      const auto fast = results(train, false, type), plain = results(train, true, type);
      for (size_t i = 0; i < fast.size(); ++i) {
        EXPECT_EQ(fast[i].scalar_type(), plain[i].scalar_type());
        EXPECT_LT(relative_error(fast[i], plain[i]), type == at::kFloat ? 1e-5 : 1e-2) << i << " training " << train;
      }
    }
}

TEST(BatchNorm, learns_from_batches_once_and_only_in_training) {
  auto norm = batch_norm(4);
  const auto images = at::randn({2, 4, 3, 3}).add(5);
  Pass eval, train = training(), again = training();
  again.recomputing = true;
  norm->forward(images, eval);
  EXPECT_EQ(buffer(*norm, "num_batches_tracked").item<int64_t>(), 0);
  EXPECT_EQ(buffer(*norm, "running_mean").abs().max().item<double>(), 0);
  const auto first = norm->forward(images, train);
  const auto mean = buffer(*norm, "running_mean").clone(), variance = buffer(*norm, "running_var").clone();
  EXPECT_LT(relative_error(mean, images.mean({0, 2, 3}).mul(0.1)), 1e-6);
  for (const bool reference : {false, true}) {
    again.reference = reference;
    EXPECT_LT(relative_error(norm->forward(images, again), first), 1e-5);
  }
  EXPECT_TRUE(buffer(*norm, "running_mean").equal(mean));
  EXPECT_TRUE(buffer(*norm, "running_var").equal(variance));
  EXPECT_EQ(buffer(*norm, "num_batches_tracked").item<int64_t>(), 1);
}

TEST(BatchNorm, stays_fp32_in_a_bf16_model_and_keeps_its_statistics_when_moved) {
  auto norm = batch_norm(4);
  Pass pass = training();
  norm->forward(at::randn({2, 4, 3, 3}), pass);
  const auto mean = buffer(*norm, "running_mean").clone();
  norm->move_to(at::kCPU, at::kBFloat16);
  for (const auto& parameter : norm->list_parameters()) EXPECT_EQ(parameter.tensor.scalar_type(), at::kFloat);
  EXPECT_TRUE(buffer(*norm, "running_mean").equal(mean));
  EXPECT_EQ(norm->forward(at::randn({2, 4, 3, 3}).to(at::kBFloat16), pass).scalar_type(), at::kBFloat16);
  EXPECT_FALSE(buffer(*norm, "running_mean").equal(mean));
}

TEST(BatchNorm, refuses_to_train_on_one_value_a_channel) {
  auto norm = batch_norm(4);
  Pass pass = training();
  EXPECT_THROW(norm->forward(at::randn({1, 4, 1, 1}), pass), base::ConfigError);
}

TEST(ImageLayers, keep_channels_last) {
  Conv2d conv(3, 8, 3, 2, Init::normal(0.1));
  conv.initialise(1);
  auto norm = batch_norm(8);
  Pass pass = training();
  const auto images = at::randn({2, 3, 9, 11}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto output = norm->forward(conv.forward(images, pass), pass);
  EXPECT_EQ(output.sizes(), at::IntArrayRef({2, 8, 5, 6}));
  EXPECT_TRUE(output.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(PatchProjection, is_the_convolution_of_its_weight) {
  PatchProjection projection(3, 10, 4, 6, Init::normal(0.2));
  projection.initialise(3);
  const auto images = at::randn({2, 3, 14, 20});  // with pixels left over both ways
  Pass fast, plain;
  plain.reference = true;
  const auto output = projection.forward(images, fast);
  EXPECT_EQ(output.sizes(), at::IntArrayRef({2, 9, 10}));
  EXPECT_LT(relative_error(output, projection.forward(images, plain)), 1e-5);
}

TEST(ResamplePlaces, keeps_a_grid_and_a_constant) {
  const auto table = at::randn({1, 12, 5});
  EXPECT_TRUE(resample_places(table, 3, 4, 3, 4).is_same(table));
  const auto larger = resample_places(at::zeros({1, 12, 5}).add(2), 3, 4, 7, 6);
  EXPECT_EQ(larger.sizes(), at::IntArrayRef({1, 42, 5}));
  EXPECT_LT(larger.sub(2).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace hyperion::nn

#include "hyperion/models/resnet.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/models/registry.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using testing::OnDevice;
using testing::relative_error;

ResnetConfig small_resnet(bool bottleneck = false) {
  ResnetConfig config;
  config.bottleneck = bottleneck, config.depths = {1, 2}, config.widths = {8, 16}, config.stem_width = 8;
  config.classes = 7;
  return config;
}

std::unique_ptr<Model> made(const ResnetConfig& config, at::Device device) {
  auto model = make_resnet(config);
  model->initialise(5);
  model->to(device, at::kFloat);
  return model;
}

class Resnet : public OnDevice {
 protected:
  at::Tensor images(int64_t batch, int64_t height, int64_t width) {
    return at::randn({batch, 3, height, width}, at::TensorOptions().device(GetParam()));
  }
  at::Tensor labels(int64_t batch) {
    return at::randint(0, 7, {batch}, at::TensorOptions().dtype(at::kLong)).to(GetParam());
  }
};

TEST_P(Resnet, starts_at_the_loss_of_guessing_with_either_stem) {
  for (const auto stem : {ResnetStem::imagenet, ResnetStem::cifar}) {
    auto config = small_resnet();
    config.stem = stem;
    auto model = made(config, GetParam());
    nn::Pass pass;
    pass.training = true;
    const auto logits = model->logits(images(8, 32, 24), pass);
    EXPECT_NEAR(at::cross_entropy_loss(logits, labels(8)).item<double>(), std::log(7.0), 0.1 * std::log(7.0));
  }
}

// Loss, gradients and running statistics of one training pass.
std::vector<at::Tensor> trained(bool bottleneck, bool reference, const at::Tensor& input, const at::Tensor& target) {
  auto model = made(small_resnet(bottleneck), input.device());
  nn::Pass pass;
  pass.training = true, pass.reference = reference;
  const auto loss = at::cross_entropy_loss(model->logits(input, pass), target);
  loss.backward();
  std::vector<at::Tensor> results = {loss.detach()};
  for (const auto& parameter : model->parameters()) results.push_back(parameter.tensor.grad());
  for (const auto& buffer : model->buffers()) results.push_back(buffer.tensor);
  return results;
}

TEST_P(Resnet, fused_and_reference_passes_agree_in_value_gradient_and_statistics) {
  device::allow_tf32(false);
  const auto input = images(3, 36, 28), target = labels(3);
  for (const bool bottleneck : {false, true}) {
    const auto fast = trained(bottleneck, false, input, target), plain = trained(bottleneck, true, input, target);
    for (size_t i = 0; i < fast.size(); ++i) EXPECT_LT(relative_error(fast[i], plain[i]), 1e-3) << i;
  }
}

TEST_P(Resnet, learns_one_batch_by_heart) {
  auto model = made(small_resnet(), GetParam());
  const auto input = images(6, 16, 16), target = labels(6);
  double first = 0, last = 0;
  for (int step = 0; step < 25; ++step) {
    nn::Pass pass;
    pass.training = true;
    const auto loss = at::cross_entropy_loss(model->logits(input, pass), target);
    loss.backward();
    (step == 0 ? first : last) = loss.item<double>();
    for (auto& parameter : model->parameters()) {
      parameter.tensor.data().sub_(parameter.tensor.grad(), 0.1);
      parameter.tensor.mutable_grad().reset();
    }
  }
  EXPECT_LT(last, 0.2 * first);
  EXPECT_EQ(model->buffers().front().name, "resnet.embedder.embedder.normalization.running_mean");
  nn::Pass eval;
  EXPECT_LT(at::cross_entropy_loss(model->logits(input, eval), target).item<double>(), first);
}

INSTANTIATE_TEST_SUITE_P(Devices, Resnet, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(ResnetShape, has_the_published_sizes_and_costs) {
  struct Published {
    int64_t depth, parameters;
    double products;  // in thousand millions, an image of 224 pixels a side
  };
  for (const auto& each : {Published{18, 11'689'512, 1.814}, Published{34, 21'797'672, 3.664},
                           Published{50, 25'557'032, 4.089}, Published{101, 44'549'160, 7.801}}) {
    auto config = resnet_of_depth(each.depth);
    config.classes = 1000, config.image_size = 224;
    const auto shape = shape_of(config, 1);
    EXPECT_EQ(shape.parameters, each.parameters);
    EXPECT_NEAR(shape.forward_flops_token / 2e9, each.products, 0.002 * each.products);
  }
  EXPECT_THROW(resnet_of_depth(19), base::ConfigError);
}

TEST(ResnetShape, counts_the_parameters_of_the_model) {
  for (const bool bottleneck : {false, true})
    for (const auto stem : {ResnetStem::imagenet, ResnetStem::cifar}) {
      auto config = small_resnet(bottleneck);
      config.stem = stem, config.downsample_in_first_stage = bottleneck;
      int64_t count = 0;
      for (const auto& parameter : make_resnet(config)->parameters()) count += parameter.tensor.numel();
      EXPECT_EQ(shape_of(config, 1).parameters, count);
    }
}

TEST(ResnetConfigFile, comes_back_as_it_was_written) {
  for (const auto stem : {ResnetStem::imagenet, ResnetStem::cifar}) {
    auto config = small_resnet(true);
    config.stem = stem, config.downsample_in_bottleneck = true;
    const auto text = to_json(config);
    EXPECT_EQ(text.find("hyperion_stem") != std::string::npos, stem == ResnetStem::cifar);
    EXPECT_EQ(make_model(text, "here")->config_json(), text);
  }
}

TEST(ResnetConfigFile, is_refused_where_it_says_another_model_or_nonsense) {
  for (const char* change : {R"("hidden_act": "gelu")", R"("layer_type": "wide")", R"("depths": [1])", R"("depths": 3)",
                             R"("depths": [1, 0, 1, 1])", R"("hidden_sizes": [3, 3, 3, 3])", R"("depths": [])",
                             R"("hyperion_stem": "other")", R"("num_labels": 1)"})
    EXPECT_THROW(resnet_from_json(std::string(R"({"model_type": "resnet", )") + change + "}", "here"),
                 base::CorruptError)
        << change;
}

}  // namespace
}  // namespace hyperion::models

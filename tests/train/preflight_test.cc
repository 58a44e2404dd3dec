#include "hyperion/train/preflight.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/words.h"
#include "hyperion/models/registry.h"

namespace hyperion::train {
namespace {

strategy::ModelShape shape_of(const RunConfig& config) {
  return models::config_shape(models::config_json(config.model), "test", config.train.length);
}

TEST(Preflight, counts_what_each_precision_and_rule_keeps) {
  RunConfig config;
  const auto parameters = static_cast<double>(shape_of(config).parameters);
  MemoryNeed need = memory_need(config, shape_of(config));
  EXPECT_EQ(need.weights + need.gradients + need.masters + need.moments, 16 * parameters);
  config.optim.rule = optim::UpdateRule::sgd;
  EXPECT_EQ(memory_need(config, shape_of(config)).moments, 4 * parameters);
  config.train.precision = Precision::bf16;
  need = memory_need(config, shape_of(config));
  EXPECT_EQ(need.weights + need.gradients + need.masters, 8 * parameters);
}

TEST(Preflight, activations_are_those_of_one_part_of_the_batch) {
  RunConfig config;
  const double whole = memory_need(config, shape_of(config)).activations;
  config.train.accumulate = 4;
  EXPECT_EQ(memory_need(config, shape_of(config)).activations, whole / 4);
}

TEST(Preflight, a_run_that_cannot_fit_is_refused_and_the_default_is_not) {
  RunConfig config;
  EXPECT_NO_THROW(check_memory(config, shape_of(config), c10::kCPU));
  config.model.layers = 1024;
  config.model.width = 65536;
  EXPECT_THROW(check_memory(config, shape_of(config), c10::kCPU), base::PreflightError);
}

TEST(SlowPrecision, is_told_beyond_noise_and_blamed_on_the_features_only_where_they_lack) {
  EXPECT_EQ(slow_precision("bf16", true, 0.6), "");
  EXPECT_EQ(slow_precision("bf16", false, 1.4), "");
  EXPECT_EQ(slow_precision("fp16", false, 53.2),
            "this CPU has no fp16 products: fp32 will be faster (a transformer block of this width takes about 53 "
            "times as long)");
  EXPECT_EQ(
      slow_precision("bf16", true, 4),
      "bf16 is slow on this CPU: fp32 will be faster (a transformer block of this width takes about 4 times as long)");
}

TEST(Preflight, a_cpu_says_what_precisions_of_a_gpu_mean_on_it) {
  LoopConfig train;
  for (const auto plain : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    train.precision = plain;
    EXPECT_EQ(settle_precision(train, 0), "") << base::word_of(plain);
  }
  train.precision = Precision::tf32;
  EXPECT_NE(settle_precision(train, 0).find("tf32 on a CPU is fp32"), std::string::npos);
  train.precision = Precision::fp8;
  EXPECT_NE(settle_precision(train, 0).find("slower, not faster"), std::string::npos);
  EXPECT_EQ(train.precision, Precision::fp8);
}

TEST(Preflight, a_gpu_without_bf16_trains_in_fp16_and_says_so) {
  LoopConfig train;
  train.precision = Precision::bf16;
  EXPECT_EQ(settle_precision(train, 80), "");
  EXPECT_EQ(settle_precision(train, 0), "");
  EXPECT_EQ(train.precision, Precision::bf16);
  EXPECT_NE(settle_precision(train, 75).find("7.5, has no bf16: it trains in fp16"), std::string::npos);
  EXPECT_EQ(train.precision, Precision::fp16);
}

TEST(Preflight, pixels_are_cut_and_normalised_as_the_base_says_where_the_recipe_leaves_that_open) {
  std::string name = (std::filesystem::temp_directory_path() / "hyperion-pixels-XXXXXX").string();
  const base::Path folder = ::mkdtemp(name.data());
  auto& files = base::real_files();
  base::write_atomically(files, folder / "config.json", "{}");
  base::write_atomically(files, folder / "preprocessor_config.json",
                         R"({"image_processor_type": "ConvNextImageProcessor", "crop_pct": 0.7, "size": 224})");
  RunConfig open, told;
  open.model.from = told.model.from = folder.string();
  told.data.augment.filter = images::FilterChoice::bilinear, told.data.augment.centre = 0.5,
  told.data.augment.normalise = "cifar";
  EXPECT_NE(settle_normalisation(files, open).find("augment.centre = 0.7"), std::string::npos);
  EXPECT_EQ(open.data.augment.normalise, "half");
  EXPECT_EQ(open.data.augment.filter, images::FilterChoice::bicubic);
  EXPECT_EQ(open.data.augment.centre, 0.7);
  EXPECT_EQ(settle_normalisation(files, told), "");
  EXPECT_EQ(told.data.augment.filter, images::FilterChoice::bilinear);
  EXPECT_EQ(told.data.augment.centre, 0.5);
  std::filesystem::remove_all(folder);
}

TEST(Preflight, any_mean_and_deviation_of_the_base_is_taken) {
  std::string name = (std::filesystem::temp_directory_path() / "hyperion-pixels-XXXXXX").string();
  const base::Path folder = ::mkdtemp(name.data());
  auto& files = base::real_files();
  base::write_atomically(files, folder / "config.json", "{}");
  const auto taken = [&](const std::string& fields) {
    base::write_atomically(files, folder / "preprocessor_config.json", R"({"size": 32, )" + fields + "}");
    RunConfig config;
    config.model.from = folder.string();
    EXPECT_NE(settle_normalisation(files, config).find("augment.normalise = \""), std::string::npos) << fields;
    return config.data.augment.normalise;
  };
  // The same numbers, of which a float holds seven digits.
  EXPECT_EQ(taken(R"("image_mean": [0.48145466, 0.4578275, 0.40821073],
                     "image_std": [0.26862954, 0.26130258, 0.27577711])"),
            "0.48145467,0.4578275,0.40821072/0.26862955,0.2613026,0.2757771");
  EXPECT_EQ(taken(R"("image_mean": [0, 0, 0], "image_std": [1e-5, 2, 300000])"), "0,0,0/1e-05,2,300000");
  EXPECT_EQ(taken(R"("do_normalize": false)"), "none");
  std::filesystem::remove_all(folder);
}

TEST(Preflight, fp8_is_refused_where_the_gpu_has_none) {
  LoopConfig train;
  train.precision = Precision::fp8;
  EXPECT_EQ(settle_precision(train, 89), "");
  EXPECT_THROW(settle_precision(train, 86), base::PreflightError);
}

}  // namespace
}  // namespace hyperion::train

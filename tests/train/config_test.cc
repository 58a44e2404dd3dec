#include "hyperion/train/config.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::train {
namespace {

TEST(RunConfig, contradictions_are_errors_that_name_both_settings) {
  const auto refused = [](auto change, const char* first, const char* second) {
    RunConfig config;
    change(config);
    try {
      check(config);
      ADD_FAILURE() << first << " and " << second << " contradict each other";
    } catch (const base::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(first), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(second), std::string::npos) << error.what();
      EXPECT_FALSE(error.hint().empty());
    }
  };
  refused([](RunConfig& c) { c.model.heads = 3; }, "model.heads", "model.width");
  refused([](RunConfig& c) { c.train.accumulate = 5; }, "train.accumulate", "train.batch");
  refused([](RunConfig& c) { c.train.length = 129; }, "train.length", "model.context");
  refused([](RunConfig& c) { c.optim.warmup = 501; }, "optim.warmup", "train.steps");
  refused([](RunConfig& c) { c.data.source = data::SourceKind::text; }, "data.source", "data.path");
  refused([](RunConfig& c) { c.data.path = {"x"}; }, "data.path", "data.source");
  EXPECT_NO_THROW(check(RunConfig{}));
}

TEST(RunConfig, a_decay_of_less_than_a_step_is_refused_with_one_that_is_enough) {
  RunConfig config;
  config.optim.schedule = optim::ScheduleShape::wsd, config.optim.decay = 0.01, config.train.steps = 8;
  try {
    check_schedule(config);
    ADD_FAILURE();
  } catch (const base::ConfigError& error) {
    EXPECT_EQ(std::string(error.what()), "optim.decay = 0.01 of a schedule of 8 steps is less than one step");
    EXPECT_NE(error.hint().find("raise optim.decay to 0.13"), std::string::npos) << error.hint();
  }
  for (const double enough : {0.0, 0.125, 0.13}) {
    config.optim.decay = enough;
    EXPECT_NO_THROW(check_schedule(config)) << enough;
  }
  config.optim.decay = 0.01, config.optim.decay_steps = 100;
  EXPECT_NO_THROW(check_schedule(config));
}

TEST(RunConfig, every_shipped_recipe_is_good) {
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(base::Path(HYPERION_SOURCE) / "recipes")) {
    if (entry.path().extension() != ".toml") continue;
    RunConfig config;
    auto settings = bind(config);
    EXPECT_NO_THROW({
      settings.read_toml(base::real_files().read(entry.path()), entry.path().string());
      if (config.lora.rank > 0) {
        config.model.from = "a model to adapt";
        config.model.preset = models::Recipe().preset;
      }
      if (auto& model = config.model.config; !model.empty()) {
        model = (entry.path().parent_path() / model).string();
        const bool of_example = base::real_files().read(model).find("own_llama") != std::string::npos;
        if (of_example) model.clear();  // only the program of examples/own_kernel.cc knows its family
      }
      if (config.data.source == data::SourceKind::prepared && config.data.path.empty())
        config.data.path = {config.prepare.output};
      check(config);
    }) << entry.path();
    ++seen;
  }
  EXPECT_GT(seen, 3);
}

}  // namespace
}  // namespace hyperion::train

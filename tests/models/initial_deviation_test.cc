// The initializer_range of a config.json.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/models/recipe.h"
#include "hyperion/models/registry.h"

namespace hyperion::models {
namespace {

double deviation_of(const std::string& config, const std::string& parameter) {
  const auto model = make_model(config, "here");
  model->initialise(5);
  for (const auto& held : model->parameters())
    if (held.name == parameter) return held.tensor.std().item<double>();
  ADD_FAILURE() << "no " << parameter;
  return 0;
}

std::string config_of(const char* preset, double init_std) {
  Recipe recipe;
  recipe.preset = preset, recipe.layers = 2;
  auto json = base::parse_json(config_json(recipe), preset);
  if (init_std != 0) json["initializer_range"] = init_std;
  return make_config(json.dump(), "here");
}

TEST(InitializerRange, spreads_the_weights_of_every_family_that_has_an_initializer_range) {
  struct Case {
    const char *preset, *table, *linear, *onto_residual;  // the last may be smaller, by the number of additions
    double smaller;
  };
  for (const Case& one : {Case{"gpt2-tiny", "transformer.wte.weight", "transformer.h.0.mlp.c_fc.weight",
                               "transformer.h.1.mlp.c_proj.weight", 2},
                          Case{"llama-tiny", "lm_head.weight", "model.layers.0.mlp.up_proj.weight",
                               "model.layers.1.self_attn.o_proj.weight", 2},
                          Case{"vit-tiny", "vit.embeddings.position_embeddings", "vit.layers.0.mlp.fc1.weight",
                               "vit.layers.1.mlp.fc2.weight", 1}}) {
    for (const double asked : {0.0, 0.3}) {
      SCOPED_TRACE(one.preset);
      const double wanted = asked > 0 ? asked : 0.02;
      const auto config = config_of(one.preset, asked);
      EXPECT_NEAR(deviation_of(config, one.table) / wanted, 1, 0.05);
      EXPECT_NEAR(deviation_of(config, one.linear) / wanted, 1, 0.05);
      EXPECT_NEAR(deviation_of(config, one.onto_residual) / wanted, 1 / one.smaller, 0.05);
    }
  }
}

TEST(InitializerRange, stands_in_a_config_only_where_it_is_another_than_transformers_takes) {
  EXPECT_EQ(base::parse_json(config_of("llama-tiny", 0.3), "here").at("initializer_range"), 0.3);
  EXPECT_FALSE(base::parse_json(config_of("llama-tiny", 0), "here").contains("initializer_range"));
  EXPECT_FALSE(base::parse_json(config_of("llama-tiny", 0.02), "here").contains("initializer_range"));
}

TEST(InitializerRange, is_refused_below_0) {
  EXPECT_NO_THROW(config_of("gpt2-tiny", 0.1));
  EXPECT_THROW(config_of("gpt2-tiny", -0.1), base::CorruptError);
}

}  // namespace
}  // namespace hyperion::models

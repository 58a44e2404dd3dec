#include "hyperion/train/step_stages.h"

#include <gtest/gtest.h>

#include <set>

#include "hyperion/models/planned_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/projection.h"
#include "hyperion/strategy/layout.h"

namespace hyperion::train {
namespace {

// Linears in 4 bits of which a process holds anything.
std::set<std::string> packed_here(const std::string& layout, int rank) {
  RunConfig config;
  config.model.preset = "mixtral-tiny", config.model.layers = 4, config.model.experts = 4;
  config.train.accumulate = 2, config.parallel.layout = layout;
  const auto model = models::make_model(models::config_json(config.model), "test");
  model->initialise(1);
  model->quantize();
  StepStages stages(*model, config, strategy::Mesh(strategy::parse_layout(layout), rank));
  stages.take_own(*model, {}, /*pieces=*/false);
  std::set<std::string> names;
  model->tree()->visit([&](const std::string& path, nn::Module& module) {
    if (const auto* linear = dynamic_cast<nn::Projection*>(&module); linear != nullptr && !linear->packed().empty())
      names.insert(path);
  });
  return names;
}

TEST(StepStages, hold_the_weights_in_4_bits_of_their_own_blocks_and_experts_alone) {
  const auto all = packed_here("dp=1", 0);
  EXPECT_EQ(all.size(), 4u * (4 + 1 + 4 * 3)) << "attention, router and experts of each block";
  for (const std::string layout : {"pp=2", "pp=2,dp=2,ep=2", "dp=4,ep=4"}) {
    const auto parsed = strategy::parse_layout(layout);
    std::set<std::string> together;
    for (int rank = 0; rank < parsed.processes(); ++rank) {
      const auto own = packed_here(layout, rank);
      EXPECT_LT(own.size(), all.size()) << layout;
      together.insert(own.begin(), own.end());
      std::set<int64_t> blocks, experts;
      for (const auto& path : own) {
        blocks.insert(models::block_of(path).value());
        if (const auto at = path.find("experts."); at != path.npos) experts.insert(std::stoll(path.substr(at + 8)));
      }
      EXPECT_EQ(blocks.size(), 4u / static_cast<size_t>(parsed.pp)) << layout;
      EXPECT_EQ(experts.size(), 4u / static_cast<size_t>(parsed.ep)) << layout;
    }
    EXPECT_EQ(together, all) << layout;
  }
}

}  // namespace
}  // namespace hyperion::train

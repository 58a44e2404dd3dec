// Plans of real models of every family: what each process would hold and compute is the model, once.
#include "hyperion/models/planned_model.h"

#include <gtest/gtest.h>

#include <map>

#include "hyperion/strategy/plan_check.h"
#include "tests/models/support_variants.h"

namespace hyperion::models {
namespace {

using testing::ModelVariant;

TEST(PlannedModel, has_every_parameter_once_in_its_part) {
  for (const auto& variant : testing::model_variants()) {
    SCOPED_TRACE(variant.name);
    const auto model = testing::made(variant);
    const auto planned = planned_model(*model, 11);
    std::map<int64_t, int64_t> tensors;  // of each block
    int64_t parameters = 0;
    for (const auto& tensor : planned.tensors) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      parameters += count, ++tensors[tensor.block];
      const bool adapters = tensor.name.find(".lora_") != std::string::npos;
      EXPECT_EQ(tensor.trained, !variant.adapter || adapters) << tensor.name;
    }
    int64_t all = 0;
    for (const auto& parameter : model->parameters()) all += parameter.tensor.numel();
    EXPECT_EQ(parameters, all);
    if (model->parts() == nullptr) continue;
    EXPECT_EQ(planned.blocks, 2);
    EXPECT_EQ(tensors.size(), 4u);  // the first part, two blocks, the last part
    EXPECT_GT(planned.costs.blocks.at(0), 0);
    const std::string name = variant.name;
    const bool tied = name == "gpt2" || name == "gpt2 with an adapter" || name.starts_with("tied");
    EXPECT_EQ(!planned.tied.empty(), tied);
    EXPECT_EQ(planned.image_tokens, name.starts_with("vit") ? 2 * 2 + 1 : 0);  // patches, and the token of the class
  }
}

// Stages hold the model once, but for a tied table; a process of tp its part and what all hold.
TEST(PlannedModel, can_be_laid_out_over_stages_shards_and_copies) {
  for (const auto& variant : testing::model_variants()) {
    const auto model = testing::made(variant);
    if (model->parts() == nullptr) continue;
    const auto planned = planned_model(*model, 12);
    const auto whole = strategy::make_plan(planned, {}).parameters[0];
    for (const char* layout : {"pp=2", "tp=2", "tp=4", "pp=2,tp=2", "pp=2,tp=2,dp=2", "dp=2,tp=8"})
      for (const int64_t zero : {0, 1, 2, 3})
        for (const bool sequence : {false, true}) {
          SCOPED_TRACE(::testing::Message() << variant.name << " " << layout << " zero " << zero);
          const auto plan = strategy::make_plan(planned, {.layout = strategy::parse_layout(layout),
                                                          .micro_batches = 3,
                                                          .samples = 2,
                                                          .length = 16,
                                                          .zero = zero,
                                                          .sequence_parallel = sequence});
          EXPECT_FALSE(strategy::find_defect(plan)) << strategy::find_defect(plan)->what;
          int64_t held = 0;
          const strategy::Mesh mesh(plan.layout, 0);
          for (const int rank : mesh.peers(strategy::Axis::pp | strategy::Axis::tp))
            held += plan.parameters[static_cast<size_t>(rank)];
          EXPECT_GE(held, whole);
          EXPECT_TRUE(held == whole || std::string(layout) != "pp=2" || !planned.tied.empty());
          EXPECT_LT(plan.parameters[0], whole);
        }
  }
}

}  // namespace
}  // namespace hyperion::models

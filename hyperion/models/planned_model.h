// A model as plans of layouts see it (strategy/plan.h): names, shapes and costs.
#pragma once
#include <optional>
#include <string>

#include "hyperion/models/model.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::models {

// The first number in a parameter's name: "model.layers.3.mlp.experts.5.w1.weight" is of block 3.
std::optional<int64_t> block_of(const std::string& name);

strategy::PlannedModel planned_model(Model& model, int64_t length);

}  // namespace hyperion::models

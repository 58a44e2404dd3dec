// A model as plans of layouts see it (strategy/plan.h): names, shapes and costs.
#pragma once
#include "hyperion/models/model.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::models {

strategy::PlannedModel planned_model(Model& model, int64_t length);

}  // namespace hyperion::models

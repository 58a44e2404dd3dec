// A model whose stages or shards lie on several processes, run forward as one: each computes its own, and hands hidden
// states on. All processes that hold the model between them call it alike.
#pragma once
#include <memory>

#include "hyperion/models/model.h"

namespace hyperion::parallel {
class Processes;
}

namespace hyperion::train {

class StepStages;

// Who gets the logits: one process of the last stage (the others an undefined tensor), or all.
enum class LogitsGo { to_last, to_all };
std::unique_ptr<models::Model> make_staged_model(models::Model& model, const StepStages& stages,
                                                 parallel::Processes& processes, LogitsGo logits);

}  // namespace hyperion::train

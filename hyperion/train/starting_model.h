// The model that a run trains, as it is before the first step: made from the seed, or from the weights of model.from,
// whole, without memory (ZeRO-3), or frozen with an adapter beside it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/models/model.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_state.h"

namespace hyperion::train {

struct StartingModel {
  std::unique_ptr<models::Model> model;
  models::Values values;         // of what the model was made without
  std::string base_digest = {};  // of the weights an adapter is trained beside
};

struct Beginning {
  const RunConfig& config;
  const std::string& model_config;       // as Hugging Face's config.json
  base::Path run;                        // its folder
  const StartPoint* past;                // the checkpoint that it goes on from; null: it begins
  bool first;                            // of the processes: it keeps what others need
  std::vector<int64_t> new_tokens = {};  // of the data, that the base does not know (kept_inputs.h)
  std::string base_digest = {};          // of the weights at model.from, where it is known already
  bool outline = false;                  // weights without memory, where that can be: no process holds them all
};
StartingModel make_starting_model(base::FileSystem& files, const Beginning& beginning);

}  // namespace hyperion::train

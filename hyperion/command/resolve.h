// From recipe, environment and flags to one checked configuration.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/command/setting_flags.h"
#include "hyperion/models/model.h"
#include "hyperion/train/config.h"

namespace hyperion::cli {

// Recipe < HYPERION_SECTION__KEY < flags. An empty recipe means defaults. Paths of the recipe
// are found as recipe_paths.h says. The settings point into `config`. A warm-up
// that is longer than steps which stand nearer to the user (a flag's, over the recipe's warm-up) becomes a tenth of
// them.
base::Settings resolve(train::RunConfig& config, const std::string& recipe, const std::vector<Override>& overrides,
                       bool checked = true);

// What became of a warm-up that was longer than the run, to be told; empty: nothing.
std::string shortened_warmup(const base::Settings& settings);

// The configuration a run was started with, as its folder holds it.
base::Settings read_run_config(train::RunConfig& config, const base::Path& run, const std::vector<Override>& overrides);

// The model of a configuration, with its adapter: names, shapes and costs, without memory for weights.
std::unique_ptr<models::Model> outline_of(const train::RunConfig& config);

}  // namespace hyperion::cli

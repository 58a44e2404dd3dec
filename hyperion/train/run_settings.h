// The settings and the model of a run, also where their files are gone or, after a full disk or a crash, empty.
#pragma once
#include <string>

#include "hyperion/base/config.h"
#include "hyperion/base/files.h"

namespace hyperion::train {

// The config.resolved.toml of this run's folder; where it is lost the same text, from what the newest checkpoint knows.
// Throws ConfigError where none knows it, or the file is broken.
void apply_run_settings(base::FileSystem& files, const base::Path& run, base::Settings& settings);

// Writes the file again where it is lost, and says so. For who holds the run.
void restore_run_settings(base::FileSystem& files, const base::Path& run);

// The model.json of this run's folder; empty where it is lost.
std::string read_run_model(base::FileSystem& files, const base::Path& run);

}  // namespace hyperion::train

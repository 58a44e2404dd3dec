// The weights that an adapter is trained beside: known by a hash of their files, wherever these lie. A run that starts
// from another run's checkpoint keeps links to its files, and so loses nothing when that run goes on, moves or goes.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::interop {

// Where a run keeps the checkpoints it is trained beside, each under the hash of its weights.
constexpr const char* kRunBase = "base";

// The MODEL as a place that does not change its content by itself: of a run the folder of its newest good checkpoint.
std::string fixed_model(base::FileSystem& files, const std::string& argument);

// What tells the weights of a MODEL from any others. An adapter belongs to one such set.
std::string weights_digest(base::FileSystem& files, const std::string& argument);

// Links the checkpoint that `base_model` names, and those it needs in turn, into the run's folder: that takes no room
// while the other run has them too. Other folders stay where they are; so does what cannot be linked, which is told.
void keep_base(base::FileSystem& files, const base::Path& run, const std::string& base_model);

// The base lies elsewhere now: kept in the run's folder, for who opens the run. Throws ConfigError where its weights
// are others.
void remember_base(base::FileSystem& files, const base::Path& run, const std::string& digest, const std::string& place);

// Where the weights of that hash lie: at `base_model`, else in the run or where it was told. Throws CorruptError, with
// what is found there instead, where they are in neither place; `place` is what was trained beside them, and
// `recorded` what it calls them, where another base_model was told since. An empty digest fits any weights.
std::string find_base(base::FileSystem& files, const base::Path& run, const std::string& base_model,
                      const std::string& digest, const std::string& place, const std::string& recorded = {});

}  // namespace hyperion::interop

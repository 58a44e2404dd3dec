// `hyperion data prepare`: files that a user has, made into a set that training maps.
#pragma once
#include "hyperion/base/files.h"
#include "hyperion/data/prepare_config.h"

namespace hyperion::base {
class Settings;
}

namespace hyperion::data {

void describe(base::Settings& settings, PrepareConfig& config);
void check(const PrepareConfig& config);

// Throws Interrupted where a signal asks for it, after all that is done has been made safe: the same call goes on
// there.
PrepareSummary prepare(base::FileSystem& files, const PrepareConfig& config, const OnPrepare& progress);

}  // namespace hyperion::data

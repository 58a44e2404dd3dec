#include "hyperion/base/version.h"

#include <hyperion_version.h>

namespace hyperion::base {

std::string version_text() { return kVersionText; }

}  // namespace hyperion::base

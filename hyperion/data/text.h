// Text from a file, a byte a token.
#pragma once
#include "hyperion/data/source.h"

namespace hyperion::data {

// The last `validation` part of the file is held out.
Split open_text(const DataConfig& config, int64_t length);

}  // namespace hyperion::data

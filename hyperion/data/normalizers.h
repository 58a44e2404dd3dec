// The "normalizer" of a tokenizer.json: what is done to a text before it is cut.
#pragma once
#include <functional>
#include <string>

#include "hyperion/base/json.h"

namespace hyperion::data {

using Normalizer = std::function<std::string(std::string)>;  // empty: nothing is done

// Throws CorruptError that names `place` and a component that is not known.
Normalizer make_normalizer(const base::Json& json, const std::string& place);

}  // namespace hyperion::data

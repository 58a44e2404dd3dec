// Finds the assistant's turns in a rendered dialogue, for templates that do not mark them.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hyperion/text/byte_range.h"

namespace hyperion::text {

// `text` is what `render` makes of `variables`. Renders parts of the dialogue: two for each turn, a few more where
// turns change with what follows them. Throws ConfigError that names `place` and the message where a turn is not found.
std::vector<ByteRange> find_turns(const nlohmann::ordered_json& variables, std::string_view text,
                                  const std::string& place,
                                  const std::function<std::string(const nlohmann::ordered_json&)>& render);

}  // namespace hyperion::text

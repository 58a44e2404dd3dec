// JSON: nlohmann's type, declared only; a source that looks inside includes <nlohmann/json.hpp>.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hyperion::base {

using Json = nlohmann::json;

// Throws CorruptError that names `place` and the byte where the text stops being JSON, or where it nests more than 200
// deep.
Json parse_json(std::string_view text, const std::string& place);

}  // namespace hyperion::base

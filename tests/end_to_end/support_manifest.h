// A checkpoint's manifest, changed under a checksum that is right: what only its content gives away.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace hyperion::testing {

nlohmann::json manifest_state(const std::filesystem::path& step_folder);
void edit_state(const std::filesystem::path& step_folder, const std::function<void(nlohmann::json& state)>& edit);

}  // namespace hyperion::testing

#include "tests/end_to_end/support_manifest.h"

#include "hyperion/base/hash.h"
#include "tests/end_to_end/support_program.h"

namespace hyperion::testing {

nlohmann::json manifest_state(const std::filesystem::path& step_folder) {
  return nlohmann::json::parse(read_file(step_folder / "manifest.json")).at("state");
}

void edit_state(const std::filesystem::path& step_folder, const std::function<void(nlohmann::json& state)>& edit) {
  auto manifest = nlohmann::ordered_json::parse(read_file(step_folder / "manifest.json"));
  auto state = nlohmann::json::parse(manifest.at("state").dump());
  edit(state);
  manifest["state"] = nlohmann::ordered_json::parse(state.dump());
  manifest.erase("checksum");
  std::string body = manifest.dump(2);
  body.resize(body.size() - 2);
  write_file(step_folder / "manifest.json", body + ",\n  \"checksum\": \"" + base::hash_hex(body) + "\"\n}\n");
}

}  // namespace hyperion::testing

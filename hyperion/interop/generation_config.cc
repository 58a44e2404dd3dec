#include "hyperion/interop/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"

namespace hyperion::interop {
namespace {

std::string text_of_generation(base::FileSystem& files, const base::Path& folder) {
  const base::Path path = folder / kGenerationConfig;
  return !folder.empty() && files.exists(path) ? base::read_description(files, path) : std::string();
}

}  // namespace

std::vector<int64_t> end_tokens(const base::Path& folder) {
  auto& files = base::real_files();
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!files.exists(folder / name)) continue;
    const auto json = base::parse_json(base::read_description(files, folder / name), (folder / name).string());
    const auto found = json.find("eos_token_id");
    if (found == json.end() || found->is_null()) continue;
    const auto list = found->is_array() ? *found : base::Json::array({*found});
    if (!std::all_of(list.begin(), list.end(), [](const base::Json& each) { return each.is_number_integer(); }))
      throw base::CorruptError(base::format("{}: eos_token_id is not a token id", (folder / name).string()));
    return list.get<std::vector<int64_t>>();
  }
  return {};
}

bool ends_likewise(const base::Path& own, const base::Path& base_folder) {
  const auto all = end_tokens(base_folder);
  const auto ends = end_tokens(own);
  return std::all_of(ends.begin(), ends.end(),
                     [&](int64_t end) { return std::find(all.begin(), all.end(), end) != all.end(); });
}

std::string generation_config(base::FileSystem& files, const base::Path& base_folder, const base::Path& own) {
  const std::string of_base = text_of_generation(files, base_folder), of_own = text_of_generation(files, own);
  if (of_base.empty() || of_own.empty()) return of_base.empty() ? of_own : of_base;
  const auto before = base::parse_json(of_base, (base_folder / kGenerationConfig).string());
  auto more = base::parse_json(of_own, (own / kGenerationConfig).string());
  if (!before.is_object() || !more.is_object()) return of_base;
  if (ends_likewise(own, base_folder)) more.erase("eos_token_id");
  auto both = before;
  both.update(more);
  return both == before ? of_base : both.dump(2) + "\n";
}

}  // namespace hyperion::interop

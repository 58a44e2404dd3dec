#include "hyperion/report/rank_records.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/base/read_file.h"

namespace hyperion::report {
namespace {

using base::Json;

constexpr const char* kRanksFile = "ranks.json";

RankRecord rank_record(const Json& json) {
  RankRecord record{json.at("weights"),
                    json.at("gradients"),
                    json.at("optimizer"),
                    json.at("optimizer_on_host"),
                    json.at("steps"),
                    json.at("seconds"),
                    {}};
  for (const auto& [key, moved] : json.at("traffic").items())
    record.traffic[key] = {moved.at("calls"), moved.at("bytes"), moved.at("seconds"), moved.at("exposed")};
  return record;
}

}  // namespace

std::string to_json(const RankRecord& record) {
  Json traffic = Json::object();
  for (const auto& [key, moved] : record.traffic)
    traffic[key] = {
        {"calls", moved.calls}, {"bytes", moved.bytes}, {"seconds", moved.seconds}, {"exposed", moved.exposed}};
  return Json{{"weights", record.weights},     {"gradients", record.gradients},
              {"optimizer", record.optimizer}, {"optimizer_on_host", record.optimizer_on_host},
              {"steps", record.steps},         {"seconds", record.seconds},
              {"traffic", std::move(traffic)}}
      .dump();
}

void write_ranks(base::FileSystem& files, const base::Path& run, const std::vector<std::string>& told) {
  Json ranks = Json::array();
  for (const auto& text : told) ranks.push_back(base::parse_json(text, kRanksFile));
  base::write_atomically(files, run / kRanksFile, Json{{"ranks", std::move(ranks)}}.dump(2) + "\n");
}

std::optional<std::vector<RankRecord>> read_ranks(base::FileSystem& files, const base::Path& run) {
  const base::Path path = run / kRanksFile;
  if (!files.exists(path)) return {};
  const Json json = base::parse_json(base::read_description(files, path), path.string());
  try {
    std::vector<RankRecord> ranks;
    for (const Json& rank : json.at("ranks")) ranks.push_back(rank_record(rank));
    return ranks;
  } catch (const Json::exception& error) {
    throw base::CorruptError(
        base::format("{} does not say what a run's processes sent: {}", path.string(), base::json_fault(error)),
        "remove the file: the run's other figures are in its metrics");
  }
}

}  // namespace hyperion::report

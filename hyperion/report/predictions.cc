#include "hyperion/report/predictions.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/base/read_file.h"

namespace hyperion::report {
namespace {

using base::Json;

constexpr const char* kPredictionsFile = "predictions.json";

bool is_base64(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '='; });
}

}  // namespace

void write_predictions(base::FileSystem& files, const base::Path& run, const PredictionRecord& record) {
  Json pictures = Json::array();
  for (const auto& [png, predicted, truth, share] : record.pictures)
    pictures.push_back({{"png", png}, {"predicted", predicted}, {"truth", truth}, {"share", share}});
  const Json json{{"step", record.step}, {"pictures", pictures}};
  base::write_atomically(files, run / kPredictionsFile,
                         json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<PredictionRecord> read_predictions(base::FileSystem& files, const base::Path& run) {
  const base::Path path = run / kPredictionsFile;
  if (!files.exists(path)) return {};
  const Json json = base::parse_json(base::read_description(files, path), path.string());
  const auto refuse = [&](const std::string& why) {
    throw base::CorruptError(base::format("{} does not hold a run's predictions: {}", path.string(), why),
                             "remove the file: the report then leaves the pictures out");
  };
  PredictionRecord record;
  try {
    record.step = json.at("step").get<int64_t>();
    for (const Json& item : json.at("pictures"))
      record.pictures.push_back({item.at("png").get<std::string>(), item.at("predicted").get<std::string>(),
                                 item.at("truth").get<std::string>(),
                                 item.at("share").is_null() ? 0 : item.at("share").get<double>()});
  } catch (const Json::exception& error) {
    refuse(base::json_fault(error));
  }
  for (const auto& picture : record.pictures)
    if (!is_base64(picture.png)) refuse("a picture is no base64");
  return record;
}

}  // namespace hyperion::report

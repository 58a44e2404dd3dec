#include "hyperion/report/answers.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/base/read_file.h"

namespace hyperion::report {
namespace {

using base::Json;

constexpr const char* kAnswersFile = "answers.json";

}  // namespace

void write_answers(base::FileSystem& files, const base::Path& run, const AnswerRecord& record) {
  Json samples = Json::array();
  for (const Sample& sample : record.samples) {
    samples.push_back({{"question", sample.question}, {"answer", sample.answer}, {"expected", sample.expected}});
    samples.back()["right"] = sample.right ? Json(*sample.right) : Json(nullptr);
  }
  const Json json{{"step", record.step}, {"right", record.right}, {"samples", samples}};
  base::write_atomically(files, run / kAnswersFile, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<AnswerRecord> read_answers(base::FileSystem& files, const base::Path& run) {
  const base::Path path = run / kAnswersFile;
  if (!files.exists(path)) return {};
  const Json json = base::parse_json(base::read_description(files, path), path.string());
  try {
    AnswerRecord record{json.at("step").get<int64_t>(), json.at("right").get<double>(), {}};
    for (const Json& item : json.at("samples")) {
      Sample sample{item.at("question").get<std::string>(),
                    item.at("answer").get<std::string>(),
                    item.at("expected").get<std::string>(),
                    {}};
      if (!item.at("right").is_null()) sample.right = item.at("right").get<bool>();
      record.samples.push_back(std::move(sample));
    }
    return record;
  } catch (const Json::exception& error) {
    throw base::CorruptError(
        base::format("{} does not hold a run's answers: {}", path.string(), base::json_fault(error)),
        "remove the file: the report then leaves the answers out, and the run's end writes them anew");
  }
}

}  // namespace hyperion::report

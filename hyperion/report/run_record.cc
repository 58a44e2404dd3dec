#include "hyperion/report/run_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/base/read_file.h"

namespace hyperion::report {
namespace {

using base::format;
using base::Json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

std::string shown(const std::optional<double>& value, bool percent) {
  if (!value) return "-";
  return percent ? format("{:.1f}%", 100 * *value) : format("{:.4f}", *value);
}

}  // namespace

std::string parameters_text(int64_t parameters, int64_t trained) {
  if (trained == parameters) return base::with_commas(parameters) + " parameters";
  return format("{} of {} parameters trained", base::with_commas(trained), base::with_commas(parameters + trained));
}

std::string to_json(const RunRecord& record) {
  Json environment = Json::array();
  for (const auto& [name, value] : record.environment) environment.push_back({name, value});
  return Json{{"name", record.name},
              {"recipe", record.recipe},
              {"created", record.created},
              {"updated", record.updated},
              {"status", record.status},
              {"failure", record.failure},
              {"step", record.step},
              {"steps", record.steps},
              {"parameters", record.parameters},
              {"trained_parameters", record.trained},
              {"seconds", record.seconds},
              {"loss", or_null(record.loss)},
              {"validation_loss", or_null(record.validation_loss)},
              {"perplexity", or_null(record.perplexity)},
              {"token_accuracy", or_null(record.token_accuracy)},
              {"answers_right", or_null(record.answers_right)},
              {"top_1", or_null(record.top_1)},
              {"top_5", or_null(record.top_5)},
              {"environment", environment}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

RunRecord run_record_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  try {
    RunRecord record;
    record.name = json.at("name").get<std::string>();
    record.recipe = json.at("recipe").get<std::string>();
    record.created = json.at("created").get<std::string>();
    record.updated = json.at("updated").get<std::string>();
    record.status = json.at("status").get<std::string>();
    record.failure = json.at("failure").get<std::string>();
    record.step = json.at("step").get<int64_t>();
    record.steps = json.at("steps").get<int64_t>();
    record.parameters = json.at("parameters").get<int64_t>();
    record.trained = json.value("trained_parameters", record.parameters);
    record.seconds = json.at("seconds").get<double>();
    record.loss = number(json, "loss");
    record.validation_loss = number(json, "validation_loss");
    record.perplexity = number(json, "perplexity");
    record.token_accuracy = number(json, "token_accuracy");
    record.answers_right = number(json, "answers_right");
    record.top_1 = number(json, "top_1");
    record.top_5 = number(json, "top_5");
    for (const auto& row : json.at("environment"))
      record.environment.emplace_back(row.at(0).get<std::string>(), row.at(1).get<std::string>());
    return record;
  } catch (const Json::exception& error) {
    throw base::CorruptError(format("{} is not a run record: {}", place, base::json_fault(error)));
  }
}

void write_run_record(base::FileSystem& files, const base::Path& run, const RunRecord& record) {
  base::write_atomically(files, run / "run.json", to_json(record));
}

RunRecord read_run_record(base::FileSystem& files, const base::Path& run) {
  return run_record_from_json(base::read_description(files, run / "run.json"), (run / "run.json").string());
}

std::vector<RunRecord> list_runs(base::FileSystem& files, const base::Path& runs) {
  std::vector<RunRecord> records;
  for (const auto& folder : files.list(runs)) {
    if (!files.exists(folder / "run.json")) continue;
    try {
      records.push_back(read_run_record(files, folder));
    } catch (const base::Error&) {
      // Being listed must not depend on every other run's health; `runs show` tells what is wrong with one.
    }
  }
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.created > b.created; });
  return records;
}

std::string runs_table(const std::vector<RunRecord>& records) {
  if (records.empty()) return "no runs yet; `hyperion train RECIPE` makes one\n";
  std::string out = format("{:<32} {:<9} {:>15} {:>8} {:>10} {:>9}  {}\n", "run", "status", "step", "loss", "val loss",
                           "right", "created");
  for (const auto& record : records)
    out += format("{:<32} {:<9} {:>15} {:>8} {:>10} {:>9}  {}\n", record.name, record.status,
                  format("{}/{}", record.step, record.steps), shown(record.loss, false),
                  shown(record.validation_loss, false), shown(record.answers_right, true), record.created);
  return out;
}

std::string run_text(const RunRecord& record) {
  std::string out;
  const auto row = [&](const char* name, const std::string& value) { out += format("{:<16} {}\n", name, value); };
  row("run", record.name);
  row("status", record.failure.empty() ? record.status : record.status + ": " + record.failure);
  row("recipe", record.recipe);
  row("created", record.created);
  row("updated", record.updated);
  row("step", format("{} of {}", record.step, record.steps));
  row("time", base::duration_text(record.seconds));
  row("parameters", base::with_commas(record.parameters));
  if (record.trained != record.parameters) row("trained", base::with_commas(record.trained));
  row("loss", shown(record.loss, false));
  row("validation loss", shown(record.validation_loss, false));
  if (record.perplexity) row("perplexity", shown(record.perplexity, false));
  if (record.token_accuracy) row("token accuracy", shown(record.token_accuracy, true));
  if (record.top_1) row("top 1", shown(record.top_1, true));
  if (record.top_5) row("top 5", shown(record.top_5, true));
  if (record.answers_right) row("answers right", shown(record.answers_right, true));
  for (const auto& [name, value] : record.environment) row(name.c_str(), value);
  return out;
}

}  // namespace hyperion::report

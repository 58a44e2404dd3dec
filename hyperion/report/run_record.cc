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

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// What a terminal would obey instead of showing: a file's text may come from anyone. C1 controls are 0xC2 0x80 to 0x9F.
std::string without_controls(const std::string& text, std::string_view kept = {}) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool of_two = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    if (of_two)
      out += format("\\u{:04x}", next), ++i;
    else if ((byte < 0x20 || byte == 0x7F) && kept.find(text[i]) == kept.npos)
      out += format("\\x{:02x}", byte);
    else
      out += text[i];
  }
  return out;
}

class RecordMembers {
 public:
  RecordMembers(Json object, std::string place) : object_(std::move(object)), place_(std::move(place)) {
    if (!object_.is_object()) throw base::CorruptError(format("{} is not a run record: it is no JSON object", place_));
  }
  bool has(const char* name) const { return object_.contains(name); }
  bool is_null(const char* name) const { return at(name).is_null(); }
  std::string text(const char* name) const { return checked(name, at(name).is_string(), "text").get<std::string>(); }
  int64_t whole(const char* name) const {
    return checked(name, at(name).is_number_integer(), "a whole number").get<int64_t>();
  }
  double real(const char* name) const { return checked(name, at(name).is_number(), "a number").get<double>(); }
  std::optional<double> real_or_null(const char* name) const {
    return has(name) && at(name).is_number() ? std::optional(at(name).get<double>()) : std::nullopt;
  }
  std::vector<std::pair<std::string, std::string>> pairs(const char* name) const {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const Json& row : checked(name, at(name).is_array(), "a list")) {
      const bool pair = row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string();
      if (!pair) refuse(name, "a list of pairs of text");
      rows.emplace_back(row[0].get<std::string>(), row[1].get<std::string>());
    }
    return rows;
  }

 private:
  const Json& at(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw base::CorruptError(format("{} is not a run record: it has no {}", place_, name));
    return *found;
  }
  const Json& checked(const char* name, bool fits, const char* kind) const {
    if (!fits) refuse(name, kind);
    return at(name);
  }
  [[noreturn]] void refuse(const char* name, const char* kind) const {
    throw base::CorruptError(format("{} is not a run record: its {} is not {}", place_, name, kind));
  }

  Json object_;
  std::string place_;
};

std::string name_of(const base::Path& run) {
  return (run.has_filename() ? run : run.parent_path()).filename().string();
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
              {"restarts", record.restarts},
              {"restarted", record.restarted},
              {"loss", or_null(record.loss)},
              {"validation_loss", or_null(record.validation_loss)},
              {"perplexity", or_null(record.perplexity)},
              {"token_accuracy", or_null(record.token_accuracy)},
              {"answers_right", or_null(record.answers_right)},
              {"top_1", or_null(record.top_1)},
              {"top_5", or_null(record.top_5)},
              {"best_step", or_null(record.best_step)},
              {"best_validation_loss", or_null(record.best_loss)},
              {"saved_step", or_null(record.saved_step)},
              {"failed_saves", record.failed_saves},
              {"failed_save", record.failed_save},
              {"ended", record.ended},
              {"data", record.data},
              {"environment", environment}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

RunRecord run_record_from_json(const std::string& text, const std::string& place) {
  const RecordMembers members(base::parse_json(text, place), place);
  RunRecord record;
  record.name = members.text("name");
  record.recipe = members.text("recipe");
  record.created = members.text("created");
  record.updated = members.text("updated");
  record.status = members.text("status");
  record.failure = members.text("failure");
  record.step = members.whole("step");
  record.steps = members.whole("steps");
  record.parameters = members.whole("parameters");
  record.trained = members.has("trained_parameters") ? members.whole("trained_parameters") : record.parameters;
  record.seconds = members.real("seconds");
  record.loss = members.real_or_null("loss");
  record.validation_loss = members.real_or_null("validation_loss");
  record.perplexity = members.real_or_null("perplexity");
  record.token_accuracy = members.real_or_null("token_accuracy");
  record.answers_right = members.real_or_null("answers_right");
  record.top_1 = members.real_or_null("top_1");
  record.top_5 = members.real_or_null("top_5");
  if (members.has("best_step") && !members.is_null("best_step")) record.best_step = members.whole("best_step");
  record.best_loss = members.real_or_null("best_validation_loss");
  if (members.has("saved_step") && !members.is_null("saved_step")) record.saved_step = members.whole("saved_step");
  if (members.has("failed_saves")) record.failed_saves = members.whole("failed_saves");
  if (members.has("failed_save")) record.failed_save = members.text("failed_save");
  if (members.has("restarts")) record.restarts = members.whole("restarts");
  if (members.has("restarted")) record.restarted = members.text("restarted");
  if (members.has("ended")) record.ended = members.text("ended");
  if (members.has("data")) record.data = members.text("data");
  record.environment = members.pairs("environment");
  return record;
}

void write_run_record(base::FileSystem& files, const base::Path& run, const RunRecord& record) {
  base::write_atomically(files, run / "run.json", to_json(record));
}

RunRecord read_run_record(base::FileSystem& files, const base::Path& run) {
  const base::Path path = run / "run.json";
  try {
    auto record = run_record_from_json(base::read_description(files, path), path.string());
    record.folder = run;
    record.name = name_of(run);
    return record;
  } catch (const base::CorruptError& error) {
    throw base::CorruptError(
        files.size(path) == 0 ? format("{} is empty", path.string()) : std::string(error.what()),
        format("the run's checkpoints do not depend on it: hyperion resume {} writes it anew", name_of(run)));
  }
}

std::vector<RunRecord> list_runs(base::FileSystem& files, const base::Path& runs) {
  std::vector<RunRecord> records;
  for (const auto& folder : files.list(runs)) {
    const bool recorded = files.exists(folder / "run.json");
    if (!recorded && !files.exists(folder / "config.resolved.toml")) continue;
    RunRecord record;
    record.folder = folder;
    record.name = name_of(folder);
    try {
      if (recorded) record = read_run_record(files, folder);
    } catch (const base::Error& error) {
      record.status = "damaged";
      record.failure = error.hint().empty() ? error.what() : format("{}; {}", error.what(), error.hint());
    }
    records.push_back(std::move(record));
  }
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.created > b.created; });
  return records;
}

std::string runs_table(const std::vector<RunRecord>& records) {
  if (records.empty()) return "no runs yet; `hyperion train RECIPE` makes one\n";
  std::string out = format("{:<32} {:<9} {:>15} {:>8} {:>10} {:>9}  {}\n", "run", "status", "step", "loss", "val loss",
                           "right", "created"),
              damages;
  for (const auto& record : records) {
    const bool damaged = record.status == "damaged";
    out += format("{:<32} {:<9} {:>15} {:>8} {:>10} {:>9}  {}\n", without_controls(record.name), record.status,
                  damaged ? "-" : format("{}/{}", record.step, record.steps), shown(record.loss, false),
                  shown(record.validation_loss, false), shown(record.answers_right, true),
                  record.created.empty() ? "-" : record.created);
    if (damaged) damages += format("{}: {}\n", without_controls(record.name), without_controls(record.failure));
  }
  return out + damages;
}

std::string run_text(const RunRecord& record) {
  std::string out;
  const auto row = [&](const char* name, const std::string& value) { out += format("{:<16} {}\n", name, value); };
  row("run", without_controls(record.name));
  const std::string& why = record.failure.empty() ? record.ended : record.failure;
  row("status", why.empty() ? record.status : record.status + ": " + without_controls(why, "\n"));
  row("recipe", without_controls(record.recipe));
  row("created", record.created);
  row("updated", record.updated);
  row("step", format("{} of {}", record.step, record.steps));
  if (!record.data.empty()) row("data", without_controls(record.data));
  row("time", base::duration_text(record.seconds));
  if (record.restarts > 0)
    row("restarts", format("{}; the last {}", record.restarts, without_controls(record.restarted)));
  row("parameters", base::with_commas(record.parameters));
  if (record.trained != record.parameters) row("trained", base::with_commas(record.trained));
  row("loss", shown(record.loss, false));
  row("validation loss", shown(record.validation_loss, false));
  if (record.best_step && record.best_loss)
    row("best", format("step {}, validation loss {:.4f}: {}@best", *record.best_step, *record.best_loss,
                       without_controls(record.name)));
  if (!record.failed_save.empty()) row("not saved", without_controls(record.failed_save));
  if (record.failed_saves > 0) row("failed saves", format("{}", record.failed_saves));
  if (record.perplexity) row("perplexity", shown(record.perplexity, false));
  if (record.token_accuracy) row("token accuracy", shown(record.token_accuracy, true));
  if (record.top_1) row("top 1", shown(record.top_1, true));
  if (record.top_5) row("top 5", shown(record.top_5, true));
  if (record.answers_right) row("answers right", shown(record.answers_right, true));
  for (const auto& [name, value] : record.environment) row(name.c_str(), value);
  return out;
}

}  // namespace hyperion::report

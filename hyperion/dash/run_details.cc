#include "hyperion/dash/run_details.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/report/answers.h"
#include "hyperion/report/predictions.h"
#include "hyperion/report/rank_records.h"

namespace hyperion::dash {
namespace {

using base::Json;

constexpr size_t kLogBytes = 64 << 10;
constexpr size_t kMostNames = 500;  // of traces, of ranks
constexpr size_t kMostPictures = 64;

// A file of a run that cannot be read is left out; the rest is worth showing.
template <class Make>
Json or_nothing(Make&& make) {
  try {
    return make();
  } catch (const base::Error& error) {
    return {{"fault", error.what()}};
  }
}

Json traces_of(const base::Path& run) {
  Json traces = Json::array();
  for (const auto& path : base::real_files().list(run / "traces")) {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(path, none);
    if (!none && traces.size() < kMostNames) traces.push_back({{"name", path.filename().string()}, {"bytes", bytes}});
  }
  return traces;
}

Json state_of(const base::Path& run) {
  Json state = Json::array();
  if (const auto ranks = report::read_ranks(base::real_files(), run))
    for (const auto& rank : *ranks)
      state.push_back({{"weights", rank.weights},
                       {"gradients", rank.gradients},
                       {"optimizer", rank.optimizer + rank.optimizer_on_host}});
  return state;
}

Json line_of(std::string_view text) {
  const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return {{"time", ""}, {"level", "info"}, {"message", std::string(text)}};
  const auto word = [&](const char* key) {
    const auto at = line.find(key);
    return at != line.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  return {{"time", word("time")}, {"level", word("level")}, {"message", word("message")}};
}

Json logged_ranks(const base::Path& logs) {
  std::vector<int> ranks;
  for (const auto& path : base::real_files().list(logs)) {
    const std::string name = path.filename().string();
    int rank = 0;
    if (!name.starts_with("rank-") || !name.ends_with(".log")) continue;
    const char *begin = name.data() + 5, *end = name.data() + name.size() - 4;
    if (std::from_chars(begin, end, rank).ptr == end && ranks.size() < kMostNames) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Json final_answers(const base::Path& run) {
  const auto record = report::read_answers(base::real_files(), run);
  if (!record) return nullptr;
  Json samples = Json::array();
  for (const auto& sample : record->samples)
    samples.push_back({{"question", sample.question},
                       {"answer", sample.answer},
                       {"expected", sample.expected},
                       {"right", sample.right ? Json(*sample.right) : Json(nullptr)}});
  return {{"step", record->step}, {"right", record->right}, {"samples", samples}};
}

Json predictions_of(const base::Path& run) {
  const auto record = report::read_predictions(base::real_files(), run);
  if (!record) return nullptr;
  Json pictures = Json::array();
  for (const auto& picture : record->pictures)
    if (pictures.size() < kMostPictures)
      pictures.push_back(
          {{"png", picture.png}, {"predicted", picture.predicted}, {"truth", picture.truth}, {"share", picture.share}});
  return {{"step", record->step}, {"pictures", pictures}};
}

}  // namespace

Json details_of(const ShownRun& run) {
  auto& files = base::real_files();
  return {{"record", Json::parse(report::to_json(run.record))},
          {"folder", run.folder.string()},
          {"report", files.exists(run.folder / "report.html")},
          {"pipeline", files.exists(run.folder / "pipeline.svg")},
          {"traces", traces_of(run.folder)},
          {"state", or_nothing([&] { return state_of(run.folder); })}};
}

Json log_of(const ShownRun& run, int rank) {
  const base::Path logs = run.folder / "logs";
  Json lines = Json::array();
  const std::string text = last_lines(logs / base::format("rank-{}.log", rank), kLogBytes);
  for (std::string_view rest = text; rest.find('\n') != rest.npos;) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (!line.empty()) lines.push_back(line_of(line));
  }
  return {{"ranks", logged_ranks(logs)}, {"lines", lines}};
}

Json answers_of(const ShownRun& run) {
  Json evaluations = Json::array();
  if (run.followed)
    for (const auto& record : run.followed->answers()) {
      Json samples = Json::array();
      for (const auto& [prompt, text] : record.samples) samples.push_back({{"prompt", prompt}, {"text", text}});
      evaluations.push_back({{"step", record.step}, {"samples", samples}});
    }
  return {{"evaluations", evaluations},
          {"final", or_nothing([&] { return final_answers(run.folder); })},
          {"predictions", or_nothing([&] { return predictions_of(run.folder); })}};
}

}  // namespace hyperion::dash

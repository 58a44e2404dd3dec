#include "hyperion/report/metrics.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/report/metric_fields.h"

namespace hyperion::report {
namespace {

using base::Json;

constexpr size_t kMostWaiting = size_t{64} << 20;  // some hours of lines that no disk takes

// Numbers are written with as many digits as give the same bits when read.
std::string json_text(int64_t value) { return base::format("{}", value); }
std::string json_text(double value) { return std::isfinite(value) ? base::format("{}", value) : "null"; }
std::string json_text(const std::string& value) {
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}
template <class T>
std::string json_text(const std::optional<T>& value) {
  return value ? json_text(*value) : "null";
}

std::string csv_text(int64_t value) { return base::format("{}", value); }
std::string csv_text(const std::string& value) {
  if (value.find_first_of(",\"\n\r") == value.npos) return value;
  std::string quoted = "\"";
  for (const char c : value)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c == '\n' || c == '\r' ? ' ' : c);
  return quoted + '"';
}
std::string csv_text(double value) { return base::format("{}", value); }
template <class T>
std::string csv_text(const std::optional<T>& value) {
  return value ? csv_text(*value) : "";
}

// Appends `"key":value` members to one object.
struct JsonLine {
  std::string text = "{";
  template <class T>
  void operator()(const char* key, const T& value) {
    if (text.size() > 1) text += ',';
    text += base::format("\"{}\":{}", key, json_text(value));
  }
  std::string finished(bool nonfinite) const { return text + (nonfinite ? ",\"nonfinite\":true}\n" : "}\n"); }
};

std::string json_line(const StepRecord& record) {
  JsonLine line;
  each_field(record, line);
  return line.finished(!std::isfinite(record.loss) || !std::isfinite(record.grad_norm));
}

std::string json_line(const EvalRecord& record) {
  JsonLine line;
  each_eval_field(record, line);
  if (!record.samples.empty()) {
    Json samples = Json::array();
    for (const auto& [prompt, text] : record.samples) samples.push_back({{"prompt", prompt}, {"text", text}});
    line.text += ",\"samples\":" + samples.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return line.finished(!std::isfinite(record.loss));
}

std::string csv_line(const StepRecord& record) {
  std::string line;
  each_field(record, [&](const char*, const auto& value) { line += (line.empty() ? "" : ",") + csv_text(value); });
  return line + "\n";
}

std::string csv_header() {
  std::string line;
  const StepRecord any;
  each_field(any, [&](const char* key, const auto&) { line += std::string(line.empty() ? "" : ",") + key; });
  return line + "\n";
}

struct FromJson {
  const Json& object;
  void operator()(const char* key, int64_t& value) const { value = object.at(key).get<int64_t>(); }
  void operator()(const char* key, std::string& value) const { value = object.at(key).get<std::string>(); }
  void operator()(const char* key, double& value) const {
    const Json& json = object.at(key);
    value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) const {
    const auto at = object.find(key);
    if (at != object.end() && !at->is_null()) value = at->template get<T>();
  }
};

// Hands out whole lines with their newline; what a torn write left at the end is none.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next(std::string_view& line) {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return false;
    line = rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
    return true;
  }

 private:
  std::string_view rest_;
};

std::optional<int64_t> csv_step(std::string_view line) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return step;
}

void read_record(const Json& object, Metrics& metrics) {
  if (object.contains("split")) {
    auto& record = metrics.evaluations.emplace_back();
    each_eval_field(record, FromJson{object});
    for (const Json& sample : object.value("samples", Json::array()))
      record.samples.push_back({sample.at("prompt").get<std::string>(), sample.at("text").get<std::string>()});
  } else {
    each_field(metrics.steps.emplace_back(), FromJson{object});
  }
}

struct Kept {
  std::string text;
  int64_t damaged = 0, missing = 0;
};

Kept keep_rows(std::string_view text, int64_t last_step) {
  Kept kept;
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    const auto step = csv_step(line);
    if (!step)
      ++kept.damaged;
    else if (*step <= last_step)
      kept.text += line;
  }
  return kept;
}

Kept keep_records(std::string_view text, int64_t last_step, int64_t evaluations_before) {
  Kept kept;
  Lines lines(text);
  int64_t newest = 0, steps = 0;
  for (std::string_view line; lines.next(line);) {
    Metrics one;
    try {
      read_record(Json::parse(line), one);
    } catch (const Json::exception&) {
      ++kept.damaged;
      continue;
    }
    const bool evaluation = !one.evaluations.empty();
    const int64_t step = evaluation ? one.evaluations[0].step : one.steps[0].step;
    const bool of_epoch = evaluation && one.evaluations[0].split == "training";
    if (step > last_step || (evaluation && !of_epoch && step >= evaluations_before)) continue;
    if (!evaluation && step <= newest) {
      ++kept.damaged;
      continue;
    }
    if (!evaluation) newest = step, ++steps;
    kept.text += line;
  }
  kept.missing = last_step - steps;
  return kept;
}

void mend(base::FileSystem& files, const base::Path& path, const std::string& old_text, const Kept& kept,
          int64_t last_step = 0) {
  if (kept.damaged > 0)
    base::log_warn(base::format("{}: left out {} damaged {}", path.string(), kept.damaged,
                                kept.damaged == 1 ? "line, which is no record" : "lines, which are no records"));
  if (kept.missing > 0)
    base::log_warn(base::format("{}: {} of the {} steps so far have no line; the run's curves will have gaps",
                                path.string(), kept.missing, last_step));
  if (kept.text != old_text) base::write_atomically(files, path, kept.text);
}

void mend_jsonl(base::FileSystem& files, const base::Path& path, int64_t last_step, int64_t evaluations_before) {
  const std::string text = files.exists(path) ? base::read_at_most(files, path, kLongestMetrics) : "";
  mend(files, path, text, keep_records(text, last_step, evaluations_before), last_step);
}

void mend_csv(base::FileSystem& files, const base::Path& path, int64_t last_step) {
  const std::string header = csv_header();
  const std::string text = files.exists(path) ? base::read_at_most(files, path, kLongestMetrics) : "";
  std::string_view rows = text;
  const bool same_columns = rows.starts_with(header);
  if (same_columns) rows.remove_prefix(header.size());
  Kept kept;
  if (same_columns) kept = keep_rows(rows, last_step);
  kept.text = header + kept.text;
  mend(files, path, text, kept);
}

}  // namespace

MetricsWriter::MetricsWriter(base::FileSystem& files, const base::Path& run, int rank, int64_t last_step_to_keep,
                             int64_t evaluations_before) {
  files.create_folders(run);
  const base::Path jsonl = run / "metrics.jsonl", csv = run / base::format("metrics.rank-{}.csv", rank);
  if (rank == 0) mend_jsonl(files, jsonl, last_step_to_keep, evaluations_before);
  if (rank == 0) jsonl_.emplace(files, jsonl);
  mend_csv(files, csv, last_step_to_keep);
  csv_.emplace(files, csv);
}

MetricsWriter::Appender::Appender(base::FileSystem& files, base::Path path)
    : files_(files), path_(std::move(path)), file_(files.open_append(path_)) {
  size_ = files_.size(path_);
}

void MetricsWriter::Appender::flush() {
  if (waiting_.empty()) return;
  if (!file_) {  // a refused write may have left a part of a line
    if (files_.size(path_) != size_) files_.resize(path_, size_);
    file_ = files_.open_append(path_);
  }
  try {
    file_->append(waiting_);
  } catch (...) {
    file_.reset();
    throw;
  }
  size_ += waiting_.size();
  waiting_.clear();
}

void MetricsWriter::Appender::append(const std::string& line) {
  const bool waited = !waiting_.empty();
  waiting_ += line;
  try {
    flush();
  } catch (const base::FileError& error) {
    if (waiting_.size() > kMostWaiting) throw;
    if (!waited) base::log_warn(base::format("what is measured waits in memory: {}", error.what()));
    return;
  }
  if (waited) base::log_info(base::format("{} has all lines again", path_.string()));
}

void MetricsWriter::write(const StepRecord& record) {
  if (jsonl_) jsonl_->append(json_line(record));
  csv_->append(csv_line(record));
}

void MetricsWriter::write(const EvalRecord& record) {
  if (jsonl_) jsonl_->append(json_line(record));
}

void MetricsWriter::flush() {
  if (jsonl_) jsonl_->flush();
  csv_->flush();
}

Metrics read_metrics(std::string_view text, const std::string& place) {
  Metrics metrics;
  Lines lines(text);
  int64_t number = 0;
  for (std::string_view line; lines.next(line);) {
    ++number;
    try {
      read_record(base::parse_json(line, place), metrics);
    } catch (const std::exception& error) {
      const bool members = dynamic_cast<const Json::exception*>(&error) != nullptr;
      throw base::CorruptError(base::format("line {} of {} is no record: {}", number, place,
                                            members ? "a member is missing, or of another type" : error.what()),
                               "it was changed after it was written: remove it, or let `hyperion resume` leave it out");
    }
  }
  return metrics;
}

}  // namespace hyperion::report

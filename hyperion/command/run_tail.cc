#include "hyperion/command/run_tail.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/signals.h"
#include "hyperion/command/resolve.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/step_line.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_log.h"

namespace hyperion::cli {
namespace {

constexpr auto kTailPause = std::chrono::milliseconds(200);
constexpr int64_t kLongestLine = 4096;  // of metrics.jsonl: a step's has some 600 bytes

class MetricsTail {
 public:
  MetricsTail(const train::RunFolder& run, bool json) : path_(run.metrics()), json_(json) {
    auto& files = base::real_files();
    train::RunConfig config;
    read_run_config(config, run.path(), {});
    steps_ = config.train.steps;
    if (files.exists(run.model()))
      images_ =
          models::config_shape(base::read_description(files, run.model()), run.model().string(), config.train.length)
              .context == 0;
  }

  // Passes over all but the last part of the file, which holds that many lines.
  void skip_to_last(int64_t lines) {
    std::error_code none_yet;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path_, none_yet));
    const int64_t start = none_yet ? 0 : size - (lines + 1) * kLongestLine;
    if (start <= 0) return;
    place_ = start;
    std::ifstream file(path_, std::ios::binary);
    file.seekg(start);
    std::string cut;
    std::getline(file, cut);
    place_ += static_cast<int64_t>(cut.size()) + 1;
  }

  // What has come since the last time, in whole lines; a file that was cut, as a resume does, begins at its new end.
  std::string read_on() {
    std::ifstream file(path_, std::ios::binary | std::ios::ate);
    if (!file) return {};
    const auto size = static_cast<int64_t>(file.tellg());
    if (size < place_) place_ = size;
    std::string text(static_cast<size_t>(size - place_), '\0');
    file.seekg(place_);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    text.resize(text.rfind('\n') + 1);
    place_ += static_cast<int64_t>(text.size());
    return text;
  }

  void print(std::string_view lines) const {
    if (json_) std::fwrite(lines.data(), 1, lines.size(), stdout);
    while (!json_ && !lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n') + 1);
      lines.remove_prefix(line.size());
      print_record(line);
    }
    std::fflush(stdout);
  }

 private:
  void print_record(std::string_view line) const {
    const auto metrics = report::read_metrics(line, path_.string());
    for (const auto& record : metrics.steps)
      std::printf("%s\n", report::step_line(record, steps_, std::nullopt, images_ ? "img/s" : "tok/s").c_str());
    for (const auto& record : metrics.evaluations)
      std::printf("step %ld  %s\n", static_cast<long>(record.step), train::evaluation_text(record).c_str());
  }

  base::Path path_;
  bool json_, images_ = false;
  int64_t steps_ = 0, place_ = 0;
};

std::string_view last_lines(std::string_view text, int64_t lines) {
  size_t start = text.size();
  for (; lines > 0 && start > 0; --lines) {
    const size_t before = start < 2 ? text.npos : text.rfind('\n', start - 2);
    start = before == text.npos ? 0 : before + 1;
  }
  return text.substr(start);
}

void say_end(const train::RunFolder& run) {
  try {
    const auto record = report::read_run_record(base::real_files(), run.path());
    const std::string status = train::RunFolder::status(record);
    const std::string why = record.failure.empty() ? "" : ": " + record.failure;
    const bool goes_on = status == "killed" || status == "stopped";
    base::log_info(base::format("run {} is not being trained: {}{}{}", run.name(), status, why,
                                goes_on ? base::format("; hyperion resume {} goes on with it", run.name()) : ""));
  } catch (const base::Error& error) {
    base::log_warn(base::format("run {} is not being trained; {}", run.name(), error.what()));
  }
}

}  // namespace

int tail_run(const std::string& name, const TailOptions& options) {
  const auto run = train::RunFolder::join(interop::find_run(base::real_files(), name));
  MetricsTail tail(run, options.json);
  tail.skip_to_last(options.lines);
  tail.print(last_lines(tail.read_on(), options.lines));
  for (bool trained = options.follow; trained;) {
    base::throw_if_stopped("following a run");
    std::this_thread::sleep_for(kTailPause);
    trained = train::RunFolder::in_use(run.path());
    tail.print(tail.read_on());
  }
  if (options.follow) say_end(run);
  return 0;
}

}  // namespace hyperion::cli

#include "hyperion/command/open_trace.h"

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"
#include "hyperion/command/meter.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/trace_formats/read_any_trace.h"

namespace hyperion::cli {
namespace {

// What else lies in a run's folder is no trace.
std::vector<trace::TraceName> files_of_run(const base::Path& run) {
  if (!std::filesystem::is_directory(run / "traces"))
    throw base::ConfigError(base::format("run {} has no traces", run.filename().string()),
                            "record them: hyperion train --profile 1+3@100, or hyperion profile RUN while it goes on");
  return trace::trace_files(run);
}

}  // namespace

std::vector<trace::TraceName> trace_files_of(const std::string& word) {
  auto& files = base::real_files();
  if (!files.exists(word) && !interop::names_path(word))
    if (const auto run = interop::named_run(files, word)) return files_of_run(*run);
  return interop::is_run(files, word) ? files_of_run(word) : trace::trace_files(word);
}

void read_ranks(const std::vector<std::string>& words, int64_t threads,
                const std::function<void(trace::Trace&&)>& take) {
  std::vector<trace::TraceName> names;
  for (const auto& word : words)
    for (auto& name : trace_files_of(word)) names.push_back(std::move(name));
  for (size_t i = 0; i < names.size(); ++i) {
    auto trace = read_shown(names[i], threads);
    if (!trace.facts.rank && names.size() > 1) trace.facts.rank = static_cast<int64_t>(i);
    take(std::move(trace));
  }
}

trace::Trace read_shown(const trace::TraceName& name, int64_t threads) {
  Meter meter;
  trace::ReadOptions options;
  options.threads = static_cast<int>(threads);
  const double begun = base::now();
  std::error_code error;
  const auto size = std::filesystem::file_size(name.path, error);
  options.progress = [&](uint64_t bytes) {
    // What a packed file comes to is not known before.
    if (base::now() - begun > 2)
      meter.show("reading " + base::printable_line(name.path.filename().string()), bytes,
                 error || bytes > size ? 0 : size, "");
  };
  auto trace = trace::read_any_trace(name, options);
  meter.clear();
  return trace;
}

}  // namespace hyperion::cli

#include "hyperion/cli/open_trace.h"

#include "hyperion/base/clock.h"
#include "hyperion/base/printable.h"
#include "hyperion/cli/meter.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/trace_formats/read_any_trace.h"

namespace hyperion::cli {

std::vector<trace::TraceName> trace_files_of(const std::string& word) {
  auto& files = base::real_files();
  if (!files.exists(word) && !interop::names_path(word))
    if (const auto run = interop::named_run(files, word)) return trace::trace_files(*run);
  return trace::trace_files(word);
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

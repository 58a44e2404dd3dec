#include "hyperion/command/profiled_kernels.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "hyperion/analysis/analysis.h"
#include "hyperion/analysis/analysis_tables.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/trace_formats/read_any_trace.h"

namespace hyperion::cli {
namespace {

using base::format;
using CsvRow = std::vector<std::string>;

// Comma-separated values: quoted cells may hold commas, newlines and doubled quotation marks.
std::vector<CsvRow> csv_rows(std::string_view text) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string cell;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += '"', ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      row.push_back(std::exchange(cell, {}));
    } else if (!quoted && c == '\n') {
      row.push_back(std::exchange(cell, {}));
      rows.push_back(std::exchange(row, {}));
    } else if (quoted || c != '\r') {
      cell += c;
    }
  }
  if (!cell.empty() || !row.empty()) row.push_back(std::move(cell)), rows.push_back(std::move(row));
  return rows;
}

// The rows below the heading that has these columns, and where they stand; lines before it are the tool's own words.
struct CsvTable {
  CsvTable(std::string_view text, const std::vector<std::string>& columns, const std::string& place)
      : rows(csv_rows(text)) {
    while (!rows.empty() && std::find(rows[0].begin(), rows[0].end(), columns[0]) == rows[0].end())
      rows.erase(rows.begin());
    if (rows.empty())
      throw base::CorruptError(format("{}: no column \"{}\"", place, columns[0]),
                               "the tool's log says what became of its work");
    for (const auto& column : columns) {
      const auto found = std::find(rows[0].begin(), rows[0].end(), column);
      if (found == rows[0].end()) throw base::CorruptError(format("{}: no column \"{}\"", place, column));
      at.push_back(static_cast<size_t>(found - rows[0].begin()));
    }
    const size_t width = rows[0].size();
    rows.erase(rows.begin());
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i].size() != width)
        throw base::CorruptError(
            format("{}: row {} below the heading has {} cells, not {}", place, i + 1, rows[i].size(), width));
  }
  std::vector<CsvRow> rows;
  std::vector<size_t> at;
};

double csv_number(std::string text, const std::string& place) {
  std::erase(text, ',');  // ncu groups digits
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0))
    throw base::CorruptError(format("{}: \"{}\" is no time", place, text));
  return value;
}

double microseconds_in(const std::string& unit, const std::string& place) {
  for (const auto& [words, scale] : {std::pair{std::array{"ns", "nsecond"}, 1e-3},
                                     {{"us", "usecond"}, 1},
                                     {{"ms", "msecond"}, 1e3},
                                     {{"s", "second"}, 1e6}})
    if (unit == words[0] || unit == words[1]) return scale;
  throw base::CorruptError(format("{}: a duration in \"{}\"", place, unit));
}

class KernelSums {
 public:
  void add(const std::string& name, int64_t count, double microseconds) {
    auto& sum = sums_[analysis::short_name(name)];
    sum.count += count, sum.microseconds += microseconds;
  }
  std::vector<ProfiledKernel> take() {
    std::vector<ProfiledKernel> list;
    for (auto& [name, sum] : sums_) sum.name = name, list.push_back(sum);
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
    return list;
  }

 private:
  std::map<std::string, ProfiledKernel> sums_;
};

struct FoundKernels {
  KernelSums kernels, operators;
  bool any_kernel = false;
};

std::string read_traces(const base::Path& path, FoundKernels& found) {
  int64_t events = 0, kernels = 0;
  for (const auto& name : trace::trace_files(path)) {
    analysis::AnalysisOptions how;
    how.steps.include_last = true;
    const auto rank = analysis::analyze(trace::read_any_trace(name), how);
    events += rank.events, kernels += rank.device_events;
    for (const auto& row : rank.kernels) found.kernels.add(row.name, row.count, static_cast<double>(row.sum) / 1e3);
    for (const auto& row : rank.operators)
      found.operators.add(row.name, row.count, static_cast<double>(row.self) / 1e3);
  }
  found.any_kernel = found.any_kernel || kernels > 0;
  return format("{} events, {} kernels", base::with_commas(events), base::with_commas(kernels));
}

std::string read_csv(const base::Path& path, FoundKernels& found,
                     std::vector<ProfiledKernel> (*kernels_of)(std::string_view, const std::string&)) {
  int64_t count = 0;
  for (const auto& kernel : kernels_of(base::read_description(base::real_files(), path), path.string())) {
    found.kernels.add(kernel.name, kernel.count, kernel.microseconds);
    count += kernel.count;
  }
  found.any_kernel = found.any_kernel || count > 0;
  return format("{} kernels", base::with_commas(count));
}

using ProfileReader = std::function<std::string(const base::Path&, FoundKernels&)>;

// Which reader a file of the tool's is for; none: it is not read.
ProfileReader reader_of(ProfilerTool tool, const base::Path& path) {
  const auto name = path.filename().string();
  if (tool == ProfilerTool::ncu && name == "raw.csv")
    return [](const auto& file, auto& found) { return read_csv(file, found, kernels_of_ncu); };
  if (tool == ProfilerTool::rocprof_compute && name == "pmc_perf.csv")
    return [](const auto& file, auto& found) { return read_csv(file, found, kernels_of_rocprof_compute); };
  for (const char* ending : {".sqlite", ".db", ".pftrace", ".perfetto-trace", ".proto"})
    if (tool != ProfilerTool::hyperion && name.ends_with(ending)) return read_traces;
  return {};
}

std::vector<base::Path> files_below(const base::Path& folder) {
  constexpr size_t kMost = 10'000;
  std::vector<base::Path> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end;
       !error && at != end && files.size() < kMost; at.increment(error))
    if (at->is_regular_file(error)) files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

ReadProfiles read_profiles(ProfilerTool tool, const base::Path& folder) {
  ReadProfiles read;
  FoundKernels found;
  const auto read_one = [&](const base::Path& path, const ProfileReader& reader) {
    ProfileFile file{path, {}, {}};
    try {
      file.holds = reader(path, found);
    } catch (const base::Interrupted&) {
      throw;
    } catch (const base::Error& error) {
      file.problem = error.what();
    }
    read.files.push_back(std::move(file));
  };
  if (tool == ProfilerTool::hyperion) {
    if (std::filesystem::is_directory(folder / "work" / "traces")) read_one(folder / "work", read_traces);
  } else {
    for (const auto& path : files_below(folder))
      if (const auto reader = reader_of(tool, path)) read_one(path, reader);
  }
  read.of_host = !found.any_kernel;
  read.kernels = (read.of_host ? found.operators : found.kernels).take();
  return read;
}

std::vector<ProfiledKernel> kernels_of_ncu(std::string_view csv, const std::string& place) {
  CsvTable table(csv, {"Kernel Name", "gpu__time_duration.sum"}, place);
  const size_t name = table.at[0], time = table.at[1];
  if (table.rows.empty()) throw base::CorruptError(place + ": no row of units below the heading");
  const double scale = microseconds_in(table.rows[0][time], place);
  std::vector<ProfiledKernel> list;
  for (size_t i = 1; i < table.rows.size(); ++i)
    list.push_back({table.rows[i][name], 1, scale * csv_number(table.rows[i][time], place)});
  return list;
}

std::vector<ProfiledKernel> kernels_of_rocprof_compute(std::string_view csv, const std::string& place) {
  CsvTable table(csv, {"Kernel_Name", "Start_Timestamp", "End_Timestamp"}, place);
  std::vector<ProfiledKernel> list;
  for (const auto& row : table.rows) {
    const double begin = csv_number(row[table.at[1]], place), end = csv_number(row[table.at[2]], place);
    if (end < begin) throw base::CorruptError(format("{}: a kernel ends before it begins", place));
    list.push_back({row[table.at[0]], 1, (end - begin) / 1e3});
  }
  return list;
}

}  // namespace hyperion::cli

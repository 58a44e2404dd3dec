#include "hyperion/trace/run_trace.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/read_trace.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {
namespace {

constexpr std::string_view kEvents = "\"traceEvents\": [", kBase = "\"baseTimeNanoseconds\": ", kJsonEnding = ".json";

struct RemovedAtEnd {
  const base::Path& path;
  ~RemovedAtEnd() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

// What kineto's times count from, in nanoseconds since 1970.
int64_t base_time(std::string_view head) {
  const size_t at = head.find(kBase);
  int64_t base = 0;
  if (at != head.npos) std::from_chars(head.data() + at + kBase.size(), head.data() + head.size(), base);
  return base;
}

// One after the other, each with a comma behind it.
std::string events_of(const profile::RecordedSpans& recorded, int64_t offset) {
  std::string text;
  std::set<int64_t> threads;
  const auto add = [&](const nlohmann::json& event) { text += event.dump() + ",\n"; };
  for (const auto& span : recorded.spans) {
    nlohmann::json facts = nlohmann::json::object();
    if (span.bytes > 0) facts["bytes"] = span.bytes;
    if (span.step >= 0) facts["step"] = span.step;
    if (span.number >= 0) facts["group"] = span.group, facts["ranks"] = span.ranks, facts["number"] = span.number;
    if (span.stage >= 0) facts["stage"] = span.stage, facts["micro_batch"] = span.micro_batch;
    if (span.end_node > span.first_node) facts["first_node"] = span.first_node, facts["end_node"] = span.end_node;
    threads.insert(span.thread);
    const auto begin = static_cast<double>(span.begin + offset) / 1e3;
    text += base::format(
        R"({{"ph":"X","cat":"user_annotation","name":{},"pid":"hyperion","tid":{},"ts":{:.3f},"dur":{:.3f},"args":{}}},)"
        "\n",
        nlohmann::json(span.name).dump(), span.thread, begin, static_cast<double>(span.end - span.begin) / 1e3,
        facts.dump());
  }
  if (recorded.spans.empty()) return text;
  add({{"ph", "M"},
       {"name", "process_name"},
       {"pid", "hyperion"},
       {"tid", 0},
       {"ts", 0},
       {"args", {{"name", "hyperion"}}}});
  for (const auto thread : threads)
    add({{"ph", "M"},
         {"name", "thread_name"},
         {"pid", "hyperion"},
         {"tid", thread},
         {"ts", 0},
         {"args", {{"name", base::format("hyperion's thread {}", thread)}}}});
  return text;
}

using Recording = std::map<int, base::Path>;  // by rank

std::map<int64_t, Recording> recordings_of(const base::Path& run) {  // by step
  std::map<int64_t, Recording> recordings;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(run / "traces", none)) {
    int64_t step = 0;
    int rank = 0, end = 0;
    const auto name = entry.path().filename().string();
    const bool said = std::sscanf(name.c_str(), "step-%ld.rank-%d%n", &step, &rank, &end) == 2;
    const auto ending = std::string_view(name).substr(std::min(static_cast<size_t>(end), name.size()));
    if (said && (ending == kTraceFileEnding || ending == kJsonEnding)) recordings[step][rank] = entry.path();
  }
  return recordings;
}

std::vector<base::Path> by_rank(const Recording& recording) {
  std::vector<base::Path> files;
  for (const auto& [rank, path] : recording) files.push_back(path);
  return files;
}

}  // namespace

base::Path trace_path(const base::Path& run, int64_t step, int rank) {
  return run / "traces" / base::format("step-{}.rank-{}{}", step, rank, kTraceFileEnding);
}

std::vector<base::Path> newest_recording(const base::Path& run) {
  const auto all = recordings_of(run);
  return all.empty() ? std::vector<base::Path>() : by_rank(all.rbegin()->second);
}

std::vector<base::Path> recording(const base::Path& run, int64_t step) {
  const auto all = recordings_of(run);
  const auto found = all.find(step);
  return found == all.end() ? std::vector<base::Path>() : by_rank(found->second);
}

namespace {

// Kineto's file with the spans among its events.
void join(const base::Path& kineto, const profile::RecordedSpans& spans, int64_t clock_offset, const base::Path& to) {
  std::ifstream in(kineto, std::ios::binary);
  std::ofstream out(to, std::ios::binary);
  if (!in || !out) throw base::FileError(base::format("cannot write {}", to.string()), errno, "is the disk full?");
  // What stands before the events is short.
  std::string head(size_t{1} << 20, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  const size_t at = head.find(kEvents);
  if (at == head.npos)
    throw base::CorruptError(base::format("{} has no traceEvents", kineto.string()),
                             "the profiler wrote something else");
  const size_t events = at + kEvents.size();
  out << head.substr(0, events) << "\n" << events_of(spans, clock_offset - base_time(head));
  out << head.substr(events);
  if (in && in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
  out.close();
  if (!out) throw base::FileError(base::format("cannot write {}", to.string()), errno, "is the disk full?");
}

Trace read_beside_a_run(const base::Path& path) {
  ReadOptions options;
  options.threads = 1, options.stops = false;
  return read_trace(path, options);
}

}  // namespace

void finish_trace(const base::Path& kineto, const profile::RecordedSpans& spans, int64_t clock_offset,
                  const base::Path& to, const TraceChange& told) {
  const RemovedAtEnd removed{kineto};
  const auto partial = base::Path(to.string() + ".partial-joined");
  const RemovedAtEnd removed_too{partial};
  join(kineto, spans, clock_offset, partial);
  auto trace = read_beside_a_run(partial);
  if (told) trace = told(std::move(trace));
  try {
    write_trace_file(base::real_files(), to, trace);
  } catch (const base::ConfigError&) {
    std::filesystem::rename(partial, base::Path(to).replace_extension(kJsonEnding));
  }
}

Trace joined_trace(const base::Path& kineto, const profile::RecordedSpans& spans, int64_t clock_offset) {
  const RemovedAtEnd removed{kineto};
  const auto joined = base::Path(kineto.string() + ".partial-joined");
  const RemovedAtEnd removed_too{joined};
  join(kineto, spans, clock_offset, joined);
  return read_beside_a_run(joined);
}

}  // namespace hyperion::trace

#include "hyperion/trace_formats/sqlite_trace.h"

#include <fstream>
#include <iterator>

#include "hyperion/base/format.h"
#include "hyperion/trace_formats/database_events.h"

namespace hyperion::trace {
namespace {

[[noreturn]] void neither(const SqliteDatabase& database) {
  database.fail("a database of SQLite, but neither one that nsys exported nor one of rocprofv3 (rocpd)");
}

void finish_facts(TraceBuilder& builder, const base::Path& path, int64_t pid, bool alone) {
  builder.facts().path = alone ? path.string() : base::format("{}, process {}", path.string(), pid);
  builder.facts().members.push_back({"displayTimeUnit", "\"ms\""});
}

}  // namespace

bool is_sqlite_file(const base::Path& path) {
  char first[kSqliteMagic.size()] = {};
  std::ifstream in(path, std::ios::binary);
  in.read(first, sizeof first);
  return std::string_view(first, static_cast<size_t>(in.gcount())) == kSqliteMagic;
}

std::vector<int64_t> sqlite_processes(const base::Path& path) {
  SqliteDatabase database(path);
  std::vector<int64_t> pids;
  if (is_rocpd(database)) {
    for (const auto& process : rocpd_processes(database)) pids.push_back(process.pid);
  } else if (is_nsight(database)) {
    for (const auto process : nsight_processes(database).all) pids.push_back(nsight_pid(process));
  } else {
    neither(database);
  }
  return pids;
}

Trace read_sqlite_trace(const base::Path& path, size_t process, const std::function<void(uint64_t)>& progress) {
  SqliteDatabase database(path);
  if (is_rocpd(database)) {
    const auto processes = rocpd_processes(database);
    if (process >= processes.size()) database.fail("it has no events of that process");
    DatabaseEvents events(database, progress);
    finish_facts(events.builder(), path, processes[process].pid, processes.size() == 1);
    add_rocpd_events(database, processes[process], events);
    return std::move(events.builder()).take();
  }
  if (!is_nsight(database)) neither(database);
  const auto processes = nsight_processes(database).all;
  if (process >= processes.size()) database.fail("it has no events of that process");
  const auto chosen = *std::next(processes.begin(), static_cast<std::ptrdiff_t>(process));
  DatabaseEvents events(database, progress);
  finish_facts(events.builder(), path, nsight_pid(chosen), processes.size() == 1);
  events.builder().facts().base_time_ns = nsight_begin_utc(database);
  add_nsight_events(database, chosen, events);
  return std::move(events.builder()).take();
}

}  // namespace hyperion::trace

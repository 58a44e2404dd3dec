// What the readers of databases share: Kineto's forms of what ran on a device and on the host.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/trace/trace_builder.h"
#include "hyperion/trace_formats/sqlite_database.h"

namespace hyperion::trace {

using TextsById = std::unordered_map<int64_t, std::string>;

class DatabaseEvents {
 public:
  DatabaseEvents(SqliteDatabase& database, const std::function<void(uint64_t)>& progress)
      : database_(database), progress_(progress) {}

  struct Place {
    int64_t device = 0, stream = 0, correlation = kNone;
  };
  // `facts`: further members of the arguments, as JSON: ', "bytes": 7'.
  void add_device(std::string_view category, std::string_view name, int64_t begin, int64_t end, const Place& place,
                  const std::string& facts = {});
  void add_host(std::string_view category, std::string_view name, int64_t begin, int64_t end, int64_t pid, int64_t tid,
                int64_t correlation = kNone, const std::string& facts = {});
  void add_instant(std::string_view name, int64_t at, int64_t pid, int64_t tid);

  TraceBuilder& builder() { return builder_; }

 private:
  int64_t duration(int64_t begin, int64_t end) const;
  void count();

  SqliteDatabase& database_;
  const std::function<void(uint64_t)>& progress_;
  uint64_t added_ = 0;
  TraceBuilder builder_;
};

std::string json_text(std::string_view text);  // with its quotes
// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel"
std::string_view without_version(std::string_view call);

// Nsight Systems'. Processes are told by the upper bits of their global ids.
bool is_nsight(SqliteDatabase& database);
struct NsightProcesses {
  std::set<int64_t> all;
  bool device_work_says_none = false;  // written before 2021
};
NsightProcesses nsight_processes(SqliteDatabase& database);
int64_t nsight_pid(int64_t process);
int64_t nsight_begin_utc(SqliteDatabase& database);  // of the session, nanoseconds since 1970; 0: not said
void add_nsight_events(SqliteDatabase& database, int64_t process, DatabaseEvents& events);

// rocpd's. A database may hold those of several, each with a guid of its own and numbers of its own.
struct RocpdProcess {
  std::string guid;
  int64_t number = 0, pid = 0;
};
bool is_rocpd(SqliteDatabase& database);
std::vector<RocpdProcess> rocpd_processes(SqliteDatabase& database);
void add_rocpd_events(SqliteDatabase& database, const RocpdProcess& process, DatabaseEvents& events);

}  // namespace hyperion::trace

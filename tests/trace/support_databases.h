// Databases as `nsys export --type sqlite` and rocprofv3 write them, after their published schemas: one process that
// launches two kernels and a copy within a range it named, and calls of another.
#pragma once
#include <sqlite3.h>

#include <stdexcept>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::trace::test {

// Values that constraints refuse are left as they were.
inline void run_sql(const base::Path& path, const std::string& script,
                    int (*visit)(void*, int, char**, char**) = nullptr, void* with = nullptr) {
  sqlite3* database = nullptr;
  sqlite3_open(path.c_str(), &database);
  char* error = nullptr;
  sqlite3_exec(database, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", nullptr, nullptr, nullptr);
  const int code = sqlite3_exec(database, script.c_str(), visit, with, &error);
  const std::string said = error == nullptr ? "" : error;
  sqlite3_free(error);
  sqlite3_close(database);
  if (code != SQLITE_OK && code != SQLITE_CONSTRAINT && code != SQLITE_MISMATCH) throw std::runtime_error(said);
}

// Process 71 with thread 72 of machine 1; process 81 with thread 81 only where `two`.
inline std::string nsight_script(bool two = false) {
  const std::string pid = "72057594037927936 + 71 * 16777216", other = "72057594037927936 + 81 * 16777216";
  const std::string tid = pid + " + 72", other_tid = other + " + 81";
  std::string script = R"(
    PRAGMA page_size = 512;
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'void gemm<float, 8>(float*)'), (3, 'gemm'),
      (4, 'cudaMemcpyAsync_v3020'), (5, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (6, 'cuLaunchKernelEx'), (7, 'ProfilerStep#3');
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, 'a', 'b');
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
      globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
      contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
      demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, registersPerThread INTEGER NOT NULL,
      gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
      blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, graphNodeId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
      contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
      bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
      contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
      bytes INTEGER NOT NULL);
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
      category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
  )";
  script += "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1400, 0, " + tid +
            ", 11, 1, 0, NULL), (1500, 1600, 0, " + tid + ", 12, 4, 0, NULL), (1700, 1800, 1, " + tid +
            ", 13, 6, 0, NULL);";
  script += "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 5000, 1, 1, 7, 11, " + pid +
            ", 2, 3, NULL, 32, 4, 2, 1, 128, 1, 1, NULL), (5500, 9500, 1, 1, 20, 13, " + pid +
            ", 5, 5, NULL, 90, 8, 1, 1, 512, 1, 1, 4294967301);";
  script += "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5100, 5400, 1, 1, 7, 12, " + pid + ", 4096, 1);";
  script += "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (9600, 9700, 1, 1, 7, NULL, " + pid + ", 0, 64);";
  script += "INSERT INTO NVTX_EVENTS VALUES (900, 2500, 59, NULL, NULL, NULL, NULL, " + tid +
            ", NULL, 7, 0), (950, 1450, 59, NULL, NULL, NULL, 'aten::addmm, op_id = 12', " + tid +
            ", NULL, NULL, 0), (960, NULL, 60, 1, NULL, NULL, 'open', " + tid +
            ", NULL, NULL, 0), (970, NULL, 34, NULL, NULL, NULL, 'here', " + tid +
            ", NULL, NULL, 0), (0, NULL, 75, NULL, NULL, NULL, 'a domain', " + tid + ", NULL, NULL, 0);";
  if (two)
    script += "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1400, 0, " + other_tid + ", 11, 1, 0, NULL);" +
              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2100, 5100, 0, 1, 7, 11, " + other +
              ", 2, 3, NULL, 32, 4, 2, 1, 128, 1, 1, NULL);";
  return script;
}

// One process of a rocpd database; several may stand in one, behind views over the tables of each.
inline std::string rocpd_tables(const std::string& guid, int pid) {
  const auto name = [&](const std::string& table) { return "\"" + table + "_" + guid + "\""; };
  const std::string own = "guid TEXT DEFAULT '" + guid + "' NOT NULL, ", p = std::to_string(pid);
  const std::string id = " (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, " + own;
  std::string script = "PRAGMA page_size = 512;";
  const auto table = [&](const std::string& word, const std::string& columns) {
    script += "CREATE TABLE " + name(word) + id + columns + ");";
  };
  const auto row = [&](const std::string& word, const std::string& columns, const std::string& values) {
    script += "INSERT INTO " + name(word) + " (" + columns + ") VALUES " + values + ";";
  };
  table("rocpd_string", "string TEXT NOT NULL UNIQUE ON CONFLICT ABORT");
  table("rocpd_info_process", "nid INTEGER, ppid INTEGER, pid INTEGER NOT NULL, command TEXT");
  table("rocpd_info_thread", "nid INTEGER, pid INTEGER, tid INTEGER NOT NULL, name TEXT");
  table("rocpd_info_agent",
        "nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, logical_index INTEGER, type_index INTEGER");
  table("rocpd_info_kernel_symbol", "nid INTEGER, pid INTEGER, kernel_name TEXT, display_name TEXT");
  table("rocpd_event",
        "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, "
        "extdata JSONB DEFAULT '{}' NOT NULL");
  table("rocpd_region",
        "nid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, start BIGINT NOT NULL, "
        "\"end\" BIGINT NOT NULL, name_id INTEGER NOT NULL, event_id INTEGER");
  table("rocpd_kernel_dispatch",
        "nid INTEGER, pid INTEGER NOT NULL, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, "
        "queue_id INTEGER, stream_id INTEGER, start BIGINT, \"end\" BIGINT, workgroup_size_x INTEGER, workgroup_size_y "
        "INTEGER, "
        "workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER");
  table("rocpd_memory_copy",
        "nid INTEGER, pid INTEGER NOT NULL, tid INTEGER, start BIGINT, \"end\" BIGINT, name_id INTEGER, "
        "dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, stream_id INTEGER, event_id INTEGER");
  row("rocpd_string", "id, string",
      "(1, 'HIP_RUNTIME_API_EXT'), (2, 'hipLaunchKernel'), (3, 'KERNEL_DISPATCH'), (4, 'MEMORY_COPY_HOST_TO_DEVICE'), "
      "(5, 'MARKER_CORE_RANGE_API'), (6, 'roctxRangeA'), (7, 'hipMemcpyAsync')");
  row("rocpd_info_process", "id, pid", "(" + p + ", " + p + ")");
  row("rocpd_info_thread", "id, pid, tid", "(5, " + p + ", " + std::to_string(pid + 1) + ")");
  row("rocpd_info_agent", "id, pid, type, absolute_index, logical_index, type_index",
      "(0, " + p + ", 'CPU', 0, 0, 0), (2, " + p + ", 'GPU', 2, 2, 1)");
  row("rocpd_info_kernel_symbol", "id, pid, kernel_name, display_name",
      "(3, " + p + ", 'Cijk_x.kd', 'Cijk_x'), (4, " + p + ", 'ncclDevKernel_Generic_1.kd', '')");
  row("rocpd_event", "id, category_id, stack_id, extdata",
      "(1, 1, 101, '{}'), (2, 3, 101, '{}'), (3, 1, 102, '{}'), (4, 3, 102, '{}'), "
      "(5, 5, 103, '{\"message\": \"ProfilerStep#3\"}')");
  row("rocpd_region", "id, pid, tid, start, \"end\", name_id, event_id",
      "(101, " + p + ", 5, 1000, 1400, 2, 1), (102, " + p + ", 5, 1500, 1600, 7, 3), (103, " + p +
          ", 5, 900, 2500, 6, 5)");
  row("rocpd_kernel_dispatch",
      "pid, tid, agent_id, kernel_id, queue_id, stream_id, start, \"end\", workgroup_size_x, workgroup_size_y, "
      "workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id",
      "(" + p + ", 5, 2, 3, 1, 7, 2000, 5000, 128, 1, 1, 512, 2, 1, 2), (" + p +
          ", 5, 2, 4, 2, 9, 5500, 9500, 256, 1, 1, 64, 1, 1, NULL)");
  row("rocpd_memory_copy", "pid, tid, start, \"end\", name_id, dst_agent_id, src_agent_id, size, stream_id, event_id",
      "(" + p + ", 5, 5100, 5400, 4, 2, 0, 4096, 7, 4)");
  return script;
}

inline std::string rocpd_script(const std::vector<std::pair<std::string, int>>& processes) {
  std::string script;
  for (const auto& [guid, pid] : processes) script += rocpd_tables(guid, pid);
  for (const char* view :
       {"rocpd_string", "rocpd_info_process", "rocpd_info_thread", "rocpd_info_agent", "rocpd_info_kernel_symbol",
        "rocpd_event", "rocpd_region", "rocpd_kernel_dispatch", "rocpd_memory_copy"}) {
    std::string all;
    for (const auto& process : processes)
      all += std::string(all.empty() ? "" : " UNION ALL ") + "SELECT * FROM \"" + view + "_" + process.first + "\"";
    script += "CREATE VIEW " + std::string(view) + " AS " + all + ";";
  }
  return script;
}

}  // namespace hyperion::trace::test

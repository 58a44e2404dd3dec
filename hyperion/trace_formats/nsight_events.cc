#include <array>

#include "hyperion/base/format.h"
#include "hyperion/trace_formats/database_events.h"

// The tables of `nsys export --type sqlite`. Those of what was not recorded are not there, and later versions have
// further columns.
namespace hyperion::trace {
namespace {

using Row = SqliteDatabase::Row;

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* kFills = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kRanges = "NVTX_EVENTS";
constexpr int64_t kProcess = int64_t{1} << 24;  // a global id: machine, process, thread; 24 bits the last two
constexpr int64_t kMark = 34, kPushPop = 59, kStartEnd = 60;  // NVTX_EVENTS.eventType

int64_t process_of(int64_t global_id) { return global_id / kProcess; }

struct NsightTexts {
  explicit NsightTexts(SqliteDatabase& database) {
    database.each("StringIds", {"id", "value"},
                  [&](const Row& row) { by_id.emplace(row.needed(0), std::string(row.text(1))); });
  }
  std::string_view operator[](int64_t id) const {
    const auto found = by_id.find(id);
    return found == by_id.end() ? std::string_view() : std::string_view(found->second);
  }
  TextsById by_id;
};

// CUPTI's kinds of copies, worded as Kineto words them.
std::string copy_name(int64_t kind) {
  constexpr std::array<const char*, 11> kKinds = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                  "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  if (kind < 1 || kind >= std::ssize(kKinds)) return "Memcpy";
  return base::format("Memcpy {}", kKinds[static_cast<size_t>(kind)]);
}

// What PyTorch's emit_nvtx says of an operator: "aten::addmm, op_id = 12", "aten::addmm, seq = 3, ..."
bool is_operator(std::string_view text, std::string_view& name) {
  name = text.substr(0, text.find(", "));
  const auto rest = text.substr(name.size());
  return name.find("::") != name.npos && (rest.starts_with(", op_id = ") || rest.starts_with(", seq = "));
}

std::string sizes(const Row& row, int first) {
  return base::format("[{}, {}, {}]", row.number(first, 1), row.number(first + 1, 1), row.number(first + 2, 1));
}

}  // namespace

bool is_nsight(SqliteDatabase& database) {
  return database.has("StringIds") && (database.has(kKernels) || database.has(kCalls) || database.has(kRanges) ||
                                       database.has("TARGET_INFO_SESSION_START_TIME"));
}

int64_t nsight_pid(int64_t process) { return process % kProcess; }

NsightProcesses nsight_processes(SqliteDatabase& database) {
  NsightProcesses found;
  for (const char* table : {kCalls, kRanges})
    database.each(table, {"globalTid"}, [&](const Row& row) {
      if (const auto id = row.number(0)) found.all.insert(process_of(*id));
    });
  for (const char* table : {kKernels, kCopies, kFills}) {
    if (!database.has(table)) continue;
    if (!database.has(table, "globalPid")) {
      found.device_work_says_none = true;
      continue;
    }
    database.each(table, {"globalPid"}, [&](const Row& row) { found.all.insert(process_of(row.needed(0))); });
  }
  if (found.all.size() > 1 && found.device_work_says_none)
    database.fail("its kernels do not say of which of its processes they are: export it with a newer nsys");
  if (found.all.empty()) found.all.insert(0);
  return found;
}

int64_t nsight_begin_utc(SqliteDatabase& database) {
  int64_t begin = 0;
  database.each("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const Row& row) { begin = row.number(0, 0); });
  return begin;
}

void add_nsight_events(SqliteDatabase& database, int64_t process, DatabaseEvents& events) {
  const NsightTexts texts(database);
  const auto other = [&](const Row& row, int column) {
    const auto id = row.number(column);
    return id && process_of(*id) != process;
  };
  const auto place = [](const Row& row) {
    return DatabaseEvents::Place{row.number(2, 0), row.number(3, 0), row.number(4, kNone)};
  };
  database.each(kCalls, {"start", "end", "globalTid", "correlationId", "nameId"}, [&](const Row& row) {
    if (other(row, 2)) return;
    const auto name = without_version(texts[row.number(4, kNone)]);
    const auto id = row.number(2, 0);
    events.add_host(name.starts_with("cuda") ? "cuda_runtime" : "cuda_driver", name, row.needed(0), row.needed(1),
                    nsight_pid(process_of(id)), id % kProcess, row.number(3, kNone));
  });
  database.each(kKernels,
                {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
                 "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "graphNodeId"},
                [&](const Row& row) {
                  if (other(row, 5)) return;
                  auto name = texts[row.number(6, kNone)];
                  if (name.empty()) name = texts[row.number(7, kNone)];
                  auto facts = base::format(R"(, "grid": {}, "block": {}, "registers per thread": {})", sizes(row, 8),
                                            sizes(row, 11), row.number(14, 0));
                  if (const auto node = row.number(15)) facts += base::format(R"(, "graph node id": {})", *node);
                  events.add_device("kernel", name, row.needed(0), row.needed(1), place(row), facts);
                });
  database.each(kCopies, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "copyKind", "bytes"},
                [&](const Row& row) {
                  if (other(row, 5)) return;
                  events.add_device("gpu_memcpy", copy_name(row.number(6, 0)), row.needed(0), row.needed(1), place(row),
                                    base::format(R"(, "bytes": {})", row.number(7, 0)));
                });
  database.each(kFills, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes"},
                [&](const Row& row) {
                  if (other(row, 5)) return;
                  events.add_device("gpu_memset", "Memset (Device)", row.needed(0), row.needed(1), place(row),
                                    base::format(R"(, "bytes": {})", row.number(6, 0)));
                });
  database.each(kRanges, {"start", "end", "eventType", "text", "textId", "globalTid"}, [&](const Row& row) {
    const auto kind = row.number(2, 0);
    if (other(row, 5) || (kind != kMark && kind != kPushPop && kind != kStartEnd)) return;
    auto text = row.text(3);
    if (text.empty()) text = texts[row.number(4, kNone)];
    const auto id = row.number(5, 0), pid = nsight_pid(process_of(id)), tid = id % kProcess;
    const auto end = row.number(1);
    if (kind == kMark) return events.add_instant(text, row.needed(0), pid, tid);
    if (!end || *end < row.needed(0)) return;  // still open when the recording ended
    std::string_view name;
    if (is_operator(text, name))
      events.add_host("cpu_op", name, row.needed(0), *end, pid, tid, kNone,
                      base::format(R"("text": {})", json_text(text)));
    else
      events.add_host("user_annotation", text, row.needed(0), *end, pid, tid);
  });
}

}  // namespace hyperion::trace

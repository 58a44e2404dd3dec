#include <nlohmann/json.hpp>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/trace_formats/database_events.h"

// The tables of rocpd 3, through the views that a database has over those of each of its processes.
namespace hyperion::trace {
namespace {

using RocpdRow = SqliteDatabase::Row;

struct RocpdEvent {
  int64_t stack = kNone;  // what a call and what it put on the device share
  int64_t category = kNone;
  std::string message;  // of a marker
};

// Of a marker: what the program called it.
std::string message_of(std::string_view facts) {
  const auto value = nlohmann::json::parse(facts, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("message") || !value["message"].is_string()) return {};
  return value["message"];
}

std::string_view call_category(std::string_view category) {
  const auto has = [&](std::string_view upper, std::string_view lower) {
    return category.find(upper) != category.npos || category.find(lower) != category.npos;
  };
  if (has("MARKER", "marker") || has("ROCTX", "roctx") || has("USER", "user")) return "user_annotation";
  if (has("HSA", "hsa")) return "cuda_driver";
  return has("HIP", "hip") ? "cuda_runtime" : "cpu_op";
}

std::string rocpd_copy_name(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> kNames[] = {{"HOST_TO_DEVICE", "Memcpy HtoD"},
                                                                 {"DEVICE_TO_HOST", "Memcpy DtoH"},
                                                                 {"DEVICE_TO_DEVICE", "Memcpy DtoD"},
                                                                 {"HOST_TO_HOST", "Memcpy HtoH"}};
  for (const auto& [word, text] : kNames)
    if (name.find(word) != name.npos) return text;
  return "Memcpy";
}

// All rows of one process, with its tables of names.
class RocpdReader {
 public:
  RocpdReader(SqliteDatabase& database, const RocpdProcess& process) : database_(database), process_(process) {
    each("rocpd_string", {"id", "string"}, [&](const RocpdRow& row) { texts_[row.needed(1)] = row.text(2); });
    each("rocpd_info_kernel_symbol", {"id", "display_name", "kernel_name"},
         [&](const RocpdRow& row) { kernels_[row.needed(1)] = row.text(2).empty() ? row.text(3) : row.text(2); });
    each("rocpd_info_agent", {"id", "type", "type_index", "logical_index"}, [&](const RocpdRow& row) {
      if (row.text(2) == "GPU") devices_[row.needed(1)] = row.number(3, row.number(4, 0));
    });
    each("rocpd_info_thread", {"id", "tid"},
         [&](const RocpdRow& row) { threads_[row.needed(1)] = row.number(2, row.needed(1)); });
    each("rocpd_event", {"id", "stack_id", "category_id", "extdata"}, [&](const RocpdRow& row) {
      events_[row.needed(1)] = {row.number(2, kNone), row.number(3, kNone), message_of(row.text(4))};
    });
  }

  void add_to(DatabaseEvents& to) const {
    each("rocpd_region", {"pid", "start", "end", "tid", "name_id", "event_id"}, [&](const RocpdRow& row) {
      if (row.needed(1) != process_.number) return;
      const auto event = event_of(row.number(6, kNone));
      const auto category = call_category(text(event.category));
      const auto name = event.message.empty() ? text(row.number(5, kNone)) : std::string_view(event.message);
      to.add_host(category, name, row.needed(2), row.needed(3), process_.pid, thread(row.number(4, 0)), event.stack);
    });
    each("rocpd_kernel_dispatch",
         {"pid", "start", "end", "agent_id", "stream_id", "queue_id", "kernel_id", "event_id", "grid_size_x",
          "grid_size_y", "grid_size_z", "workgroup_size_x", "workgroup_size_y", "workgroup_size_z"},
         [&](const RocpdRow& row) {
           if (row.needed(1) != process_.number) return;
           const auto facts = base::format(R"(, "queue": {}, "grid": [{}, {}, {}], "block": [{}, {}, {}])",
                                           row.number(6, 0), row.number(9, 1), row.number(10, 1), row.number(11, 1),
                                           row.number(12, 1), row.number(13, 1), row.number(14, 1));
           const auto name = kernels_.find(row.number(7, kNone));
           to.add_device("kernel", name == kernels_.end() ? std::string_view() : name->second, row.needed(2),
                         row.needed(3), place(row, 4, 5, 8), facts);
         });
    each("rocpd_memory_copy",
         {"pid", "start", "end", "dst_agent_id", "src_agent_id", "stream_id", "event_id", "name_id", "size"},
         [&](const RocpdRow& row) {
           if (row.needed(1) != process_.number) return;
           const bool to_device = devices_.contains(row.number(4, kNone));
           to.add_device("gpu_memcpy", rocpd_copy_name(text(row.number(8, kNone))), row.needed(2), row.needed(3),
                         place(row, to_device ? 4 : 5, 6, 7), base::format(R"(, "bytes": {})", row.number(9, 0)));
         });
  }

 private:
  // Column 0 is the guid.
  void each(const std::string& table, std::vector<std::string> columns,
            const std::function<void(const RocpdRow&)>& visit) const {
    columns.insert(columns.begin(), "guid");
    database_.each(table, columns, [&](const RocpdRow& row) {
      if (row.text(0) == process_.guid) visit(row);
    });
  }
  std::string_view text(int64_t id) const {
    const auto found = texts_.find(id);
    return found == texts_.end() ? std::string_view() : std::string_view(found->second);
  }
  RocpdEvent event_of(int64_t id) const {
    const auto found = events_.find(id);
    return found == events_.end() ? RocpdEvent{} : found->second;
  }
  int64_t thread(int64_t id) const {
    const auto found = threads_.find(id);
    return found == threads_.end() ? id : found->second;
  }
  DatabaseEvents::Place place(const RocpdRow& row, int agent, int stream, int event) const {
    const auto found = devices_.find(row.number(agent, kNone));
    return {found == devices_.end() ? 0 : found->second, row.number(stream, 0),
            event_of(row.number(event, kNone)).stack};
  }

  SqliteDatabase& database_;
  const RocpdProcess& process_;
  TextsById texts_, kernels_;
  std::unordered_map<int64_t, int64_t> devices_, threads_;
  std::unordered_map<int64_t, RocpdEvent> events_;
};

}  // namespace

bool is_rocpd(SqliteDatabase& database) { return database.has("rocpd_string") && database.has("rocpd_info_process"); }

std::vector<RocpdProcess> rocpd_processes(SqliteDatabase& database) {
  std::set<std::pair<std::string, int64_t>> active;
  for (const char* table : {"rocpd_region", "rocpd_kernel_dispatch", "rocpd_memory_copy"})
    database.each(table, {"guid", "pid"},
                  [&](const RocpdRow& row) { active.emplace(std::string(row.text(0)), row.needed(1)); });
  std::vector<RocpdProcess> processes;
  database.each("rocpd_info_process", {"guid", "id", "pid"}, [&](const RocpdRow& row) {
    if (active.erase({std::string(row.text(0)), row.needed(1)}) > 0)
      processes.push_back({std::string(row.text(0)), row.needed(1), row.number(2, row.needed(1))});
  });
  if (!active.empty()) database.fail("its events are of a process that it does not name");
  return processes;
}

void add_rocpd_events(SqliteDatabase& database, const RocpdProcess& process, DatabaseEvents& events) {
  RocpdReader(database, process).add_to(events);
}

}  // namespace hyperion::trace

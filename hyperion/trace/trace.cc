#include "hyperion/trace/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/text/json_text.h"

namespace hyperion::trace {
namespace {

struct CategoryWord {
  std::string_view word;
  Category category;
};

// Kineto's, and what PyTorch before 1.12 wrote.
constexpr CategoryWord kCategories[] = {
    {"cpu_op", Category::cpu_op},
    {"Operator", Category::cpu_op},
    {"user_annotation", Category::user_annotation},
    {"gpu_user_annotation", Category::gpu_user_annotation},
    {"kernel", Category::kernel},
    {"Kernel", Category::kernel},
    {"gpu_memcpy", Category::gpu_memcpy},
    {"Memcpy", Category::gpu_memcpy},
    {"gpu_memset", Category::gpu_memset},
    {"Memset", Category::gpu_memset},
    {"cuda_runtime", Category::runtime},
    {"Runtime", Category::runtime},
    {"privateuse1_runtime", Category::runtime},
    {"cuda_driver", Category::driver},
    {"privateuse1_driver", Category::driver},
    {"cuda_sync", Category::synchronization},
    {"python_function", Category::python_function},
    {"overhead", Category::overhead},
    {"cpu_instant_event", Category::instant},
};

constexpr std::string_view kTexts[] = {"cpu_op",
                                       "user_annotation",
                                       "gpu_user_annotation",
                                       "kernel",
                                       "gpu_memcpy",
                                       "gpu_memset",
                                       "runtime",
                                       "driver",
                                       "synchronization",
                                       "python_function",
                                       "overhead",
                                       "instant",
                                       "flow",
                                       "counter",
                                       "metadata",
                                       "other"};

}  // namespace

std::string_view category_text(Category category) { return kTexts[static_cast<size_t>(category)]; }

Category category_of(char phase, std::string_view category) {
  switch (phase) {
    case 'M':
      return Category::metadata;
    case 'C':
      return Category::counter;
    case 's':
    case 't':
    case 'f':
      return Category::flow;
    case 'i':
    case 'I':
      return Category::instant;
    default:
      break;
  }
  const auto* found = std::find_if(std::begin(kCategories), std::end(kCategories),
                                   [&](const CategoryWord& known) { return known.word == category; });
  return found == std::end(kCategories) ? Category::other : found->category;
}

void Trace::push(Column<uint32_t>& column, Wide& wide, int64_t value) {
  const bool fits = value >= 0 && value < kWide;
  if (!fits && value != kNone) wide[column.size()] = value;
  column.push_back(fits ? static_cast<uint32_t>(value) : kWide);
}

void Trace::append(const Event& event, std::string_view packed_fields) {
  if (size() == UINT32_MAX) throw base::Error("a trace of more than 4,294,967,295 events", "record fewer steps");
  name.push_back(event.name);
  type.push_back(event.type);
  track.push_back(event.track);
  begin.push_back(event.begin);
  duration.push_back(event.duration);
  push(correlation_, wide_correlations_, event.correlation);
  push(external_, wide_externals_, event.external);
  fields.append(packed_fields);
}

uint16_t Trace::add_type(char phase, std::string_view category) {
  const uint32_t word = category.data() == nullptr ? kNoString : names.add(category);
  const auto found = std::find_if(types.begin(), types.end(), [&](const EventType& known) {
    return known.phase == phase && known.category_name == word;
  });
  if (found != types.end()) return static_cast<uint16_t>(found - types.begin());
  if (types.size() > UINT16_MAX)
    throw base::Error(base::format("{} has more than 65536 kinds of events", facts.path), "is it a trace?");
  types.push_back({phase, word, category_of(phase, category)});
  return static_cast<uint16_t>(types.size() - 1);
}

uint32_t Trace::add_track(const Track& track) {
  const auto key = base::format("{}\n{}\n{}\n{}", track.pid, track.tid, track.device, track.stream);
  const auto [found, added] = track_numbers_.try_emplace(key, static_cast<uint32_t>(tracks.size()));
  if (added) tracks.push_back(track);
  return found->second;
}

std::string Trace::args(size_t i) const {
  const auto members = "{" + fields.text(i) + "}";
  for (const auto& member : text::json_members(members))
    if (text::json_key_is(member.key, "args")) return std::string(member.value);
  return {};
}

std::string Trace::arg(size_t i, std::string_view key) const {
  const auto all = args(i);
  if (all.empty() || !text::json_is_object(all)) return {};
  for (const auto& member : text::json_members(all))
    if (text::json_key_is(member.key, key)) return std::string(member.value);
  return {};
}

int64_t Trace::integer_arg(size_t i, std::string_view key, int64_t otherwise) const {
  const auto value = base::Json::parse(arg(i, key), nullptr, /*allow_exceptions=*/false);
  return value.is_number_integer() ? value.get<int64_t>() : otherwise;
}

size_t Trace::bytes() const {
  return names.bytes() + name.bytes() + type.bytes() + track.bytes() + begin.bytes() + duration.bytes() +
         correlation_.bytes() + external_.bytes() + fields.bytes();
}

void read_facts(FileFacts& facts) {
  const auto integer = [](const base::Json& json) {
    return json.is_number_integer() ? std::optional(json.get<int64_t>()) : std::nullopt;
  };
  for (const auto& member : facts.members) {
    if (member.key != "distributedInfo" && member.key != "baseTimeNanoseconds" && member.key != "schemaVersion")
      continue;
    const auto value = base::Json::parse(member.value, nullptr, /*allow_exceptions=*/false);
    if (member.key == "schemaVersion") facts.schema_version = integer(value);
    if (member.key == "baseTimeNanoseconds") facts.base_time_ns = integer(value).value_or(0);
    if (member.key != "distributedInfo" || !value.is_object()) continue;
    if (value.contains("rank")) facts.rank = integer(value["rank"]);
    if (value.contains("world_size")) facts.world_size = integer(value["world_size"]);
    if (value.contains("backend") && value["backend"].is_string()) facts.backend = value["backend"];
  }
}

}  // namespace hyperion::trace

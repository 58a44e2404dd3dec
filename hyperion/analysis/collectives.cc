#include "hyperion/analysis/collectives.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "hyperion/analysis/device_work.h"
#include "hyperion/analysis/profiler_steps.h"

namespace hyperion::analysis {
namespace {

constexpr std::array<std::string_view, 10> kKindTexts = {"all_reduce",     "reduce_scatter", "all_gather", "all_to_all",
                                                         "barrier",        "broadcast",      "send",       "receive",
                                                         "point_to_point", "other"};

// Lower case, letters and digits alone: "allgatherbase".
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name.substr(0, name.find('('))) {
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  return letters;
}

std::string_view without_quotes(std::string_view json) {
  return json.size() > 1 && json.front() == '"' ? json.substr(1, json.size() - 2) : json;
}

struct Word {
  std::string_view word;
  CollectiveKind kind;
};
constexpr Word kOwnWords[] = {
    {"all_reduce", CollectiveKind::all_reduce},   {"reduce_scatter", CollectiveKind::reduce_scatter},
    {"all_gather", CollectiveKind::all_gather},   {"all_to_all", CollectiveKind::all_to_all},
    {"barrier", CollectiveKind::barrier},         {"broadcast", CollectiveKind::broadcast},
    {"exchange", CollectiveKind::point_to_point}, {"send", CollectiveKind::send},
    {"receive", CollectiveKind::receive}};

std::optional<CollectiveKind> own_kind(std::string_view name) {
  const auto word = name.substr(0, name.find(' '));
  for (const auto& known : kOwnWords)
    if (known.word == word) return known.kind;
  return std::nullopt;
}

class CollectiveFinder {
 public:
  explicit CollectiveFinder(const trace::Trace& trace) : trace_(trace), steps_(profiler_steps(trace)) {
    kinds_.resize(trace.names.size());
    own_.resize(trace.names.size());
    for (uint32_t id = 0; id < kinds_.size(); ++id) {
      kinds_[id] = work_kind(trace.names[id]);
      own_[id] = own_kind(trace.names[id]);
    }
    for (const auto& track : trace.tracks) own_tracks_.push_back(track.pid == kOwnProcess);
  }

  RankCollectives find() {
    for (size_t i = 0; i < trace_.size(); ++i) {
      if (trace_.name[i] == trace::kNoString || trace_.duration[i] < 0 || trace_.begin[i] == trace::kNoTime) continue;
      if (trace_.category(i) == trace::Category::kernel && kinds_[trace_.name[i]] == WorkKind::communication)
        add_kernel(i);
      if (own_tracks_[trace_.track[i]] && own_[trace_.name[i]]) add_span(i, *own_[trace_.name[i]]);
    }
    tell_steps();
    std::stable_sort(found_.all.begin(), found_.all.end(),
                     [](const Collective& a, const Collective& b) { return a.begin < b.begin; });
    return std::move(found_);
  }

 private:
  std::string text_arg(size_t event, std::string_view key) const {
    return std::string(without_quotes(trace_.arg(event, key)));
  }
  int64_t number_arg(size_t event, std::string_view key) const {
    const auto text = trace_.arg(event, key);
    int64_t number = trace::kNone;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  void add(size_t event, CollectiveKind kind, CollectiveGroup group, int64_t number) {
    const auto [at, added] = numbers_.try_emplace(group.key, static_cast<uint32_t>(found_.groups.size()));
    if (added) {
      if (group.axis.empty()) group.axis = axis_of_group(group.name);
      found_.groups.push_back(std::move(group));
    }
    const int64_t base = trace_.facts.base_time_ns;
    found_.all.push_back({base + trace_.begin[event], base + trace_.end(event), static_cast<uint32_t>(event),
                          at->second, number, trace::kNone, kind});
  }

  void add_kernel(size_t event) {
    const auto said = text_arg(event, "Collective name");
    const auto group = text_arg(event, "Process Group Name"), ranks = text_arg(event, "Process Group Ranks");
    const auto described = text_arg(event, "Process Group Description");
    auto kind = collective_kind(said);
    if (kind == CollectiveKind::other) kind = collective_kind(trace_.name_text(event));
    auto key = group.empty() ? "communication" : "process group " + group;
    if (!ranks.empty()) key.append(" ").append(ranks);
    const auto name = !described.empty() && described != "undefined" ? described : group.empty() ? key : group;
    add(event, kind, {std::move(key), name, {}}, number_arg(event, "Seq"));
  }

  void add_span(size_t event, CollectiveKind kind) {
    const auto group = text_arg(event, "group"), ranks = text_arg(event, "ranks");
    if (!group.empty()) return add(event, kind, {group + " " + ranks, group, {}}, number_arg(event, "number"));
    const std::string name(trace_.name_text(event));
    add(event, kind, {name, name.substr(std::min(name.find(' '), name.size() - 1) + 1), {}}, trace::kNone);
  }

  // A kernel belongs to the step that launched it.
  void tell_steps() {
    std::unordered_map<int64_t, int64_t> launches;
    for (const auto& each : found_.all)
      if (trace_.correlation(each.event) != trace::kNone) launches[trace_.correlation(each.event)] = trace::kNoTime;
    for (size_t i = 0; i < trace_.size() && !launches.empty(); ++i) {
      const auto category = trace_.category(i);
      if (category != trace::Category::runtime && category != trace::Category::driver) continue;
      const auto at = launches.find(trace_.correlation(i));
      if (at != launches.end()) at->second = trace_.begin[i];
    }
    for (auto& each : found_.all) {
      const auto at = launches.find(trace_.correlation(each.event));
      const bool launched = at != launches.end() && at->second != trace::kNoTime;
      each.step = step_at(steps_, launched ? at->second : trace_.begin[each.event]);
    }
  }

  const trace::Trace& trace_;
  std::vector<ProfilerStep> steps_;
  std::vector<WorkKind> kinds_;
  std::vector<std::optional<CollectiveKind>> own_;
  std::vector<bool> own_tracks_;
  std::unordered_map<std::string, uint32_t> numbers_;
  RankCollectives found_;
};

}  // namespace

std::string_view collective_text(CollectiveKind kind) { return kKindTexts[static_cast<size_t>(kind)]; }

CollectiveKind collective_kind(std::string_view name) {
  static constexpr Word kParts[] = {{"allreduce", CollectiveKind::all_reduce},
                                    {"reducescatter", CollectiveKind::reduce_scatter},
                                    {"allgather", CollectiveKind::all_gather},
                                    {"alltoall", CollectiveKind::all_to_all},
                                    {"barrier", CollectiveKind::barrier},
                                    {"broadcast", CollectiveKind::broadcast},
                                    {"sendrecv", CollectiveKind::point_to_point},
                                    {"send", CollectiveKind::send},
                                    {"recv", CollectiveKind::receive}};
  const auto letters = letters_of(name);
  for (const auto& part : kParts)
    if (letters.find(part.word) != std::string::npos) return part.kind;
  return CollectiveKind::other;
}

std::string axis_of_group(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kAxes[] = {
      {"gradients", "dp"},    {"weights", "dp"}, {"replicas", "dp"},         {"layers", "tp"},
      {"context", "cp"},      {"stages", "pp"},  {"hidden states", "pp"},    {"hidden gradients", "pp"},
      {"tied weights", "pp"}, {"experts", "ep"}, {"expert gradients", "dp"}, {"expert weights", "dp"},
  };
  for (const auto& [group, axis] : kAxes)
    if (name == group) return std::string(axis);
  // Device meshes of PyTorch: "mesh_tp", "dp_shard".
  std::string word;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '_' && name[i] != ' ' && name[i] != '-') {
      word += name[i];
      continue;
    }
    for (const std::string_view axis : {"dp", "tp", "pp", "cp", "ep"})
      if (word == axis) return word;
    word.clear();
  }
  return {};
}

RankCollectives collectives_of(const trace::Trace& trace) { return CollectiveFinder(trace).find(); }

}  // namespace hyperion::analysis

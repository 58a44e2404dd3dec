#include "hyperion/analysis/what_if.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <unordered_map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

// A piece by its name and how manieth of that name it is in its rank: what the ranks have in common.
struct Slot {
  uint32_t name = 0, repeat = 0, rank = 0, piece = 0;
};

std::vector<Slot> slots_of(const Job& job) {
  std::unordered_map<std::string_view, uint32_t> names;
  std::vector<Slot> slots;
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const auto& timeline = job.ranks[rank];
    std::vector<uint32_t> number(timeline.names.size() + 1, UINT32_MAX), repeats;
    for (uint32_t i = 0; i < timeline.pieces.size(); ++i) {
      const auto name = timeline.pieces[i].name;
      auto& known = number[std::min<size_t>(name, timeline.names.size())];
      if (known == UINT32_MAX)
        known = names.try_emplace(timeline.names[name], static_cast<uint32_t>(names.size())).first->second;
      if (known >= repeats.size()) repeats.resize(names.size());
      slots.push_back({known, repeats[known]++, rank, i});
    }
  }
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return std::tie(a.name, a.repeat, a.rank) < std::tie(b.name, b.repeat, b.rank);
  });
  return slots;
}

int64_t median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void take_out_rank(const JobGraph& graph, uint32_t rank, std::vector<int64_t>& delays) {
  const auto slots = slots_of(graph.job());
  std::vector<int64_t> others;
  for (size_t i = 0, end = 0; i < slots.size(); i = end) {
    const Slot* own = nullptr;
    for (end = i; end < slots.size() && slots[end].name == slots[i].name && slots[end].repeat == slots[i].repeat; ++end)
      if (slots[end].rank == rank) own = &slots[end];
    if (own == nullptr || end - i < 2) continue;
    for (const bool at_end : {false, true}) {
      const auto moment_of = [&](const Slot& slot) {
        return graph.moment(slot.rank, at_end ? end_of(slot.piece) : begin_of(slot.piece));
      };
      const auto moment = moment_of(*own);
      if (graph.is_matched_end(moment) || !graph.waits(moment)) continue;
      others.clear();
      for (size_t k = i; k < end; ++k)
        if (slots[k].rank != rank && graph.waits(moment_of(slots[k])))
          others.push_back(graph.delays()[moment_of(slots[k])]);
      if (!others.empty()) delays[moment] = median(others);
    }
  }
}

// Whether this delay is the cause's.
bool belongs_to(const JobGraph& graph, uint32_t moment, Cause cause) {
  const auto at = graph.place(moment);
  if (at.all_begun) return false;
  const auto& piece = graph.piece(at);
  const bool on_host = !graph.job().ranks[at.rank].lanes[piece.lane].device;
  switch (cause) {
    case Cause::communication:
      return at.end && piece.kind == PieceKind::communication;
    case Cause::host:
      return on_host && (!at.end || piece.kind == PieceKind::host || piece.kind == PieceKind::wait);
    case Cause::input:
      return at.end && piece.kind == PieceKind::input;
    case Cause::rank:
      break;
  }
  return false;
}

double step_time_with(const JobGraph& graph, const std::vector<int64_t>& delays) {
  if (delays.empty()) return 0;
  const auto times = graph.replay(delays);
  return static_cast<double>(*std::max_element(times.begin(), times.end())) / static_cast<double>(graph.job().steps());
}

}  // namespace

double step_time(const JobGraph& graph) { return step_time_with(graph, graph.delays()); }

double step_time_without(const JobGraph& graph, const WhatIf& what) {
  auto delays = graph.delays();
  if (what.without == Cause::rank) {
    take_out_rank(graph, what.rank, delays);
  } else {
    for (uint32_t moment = 0; moment < delays.size(); ++moment)
      if (belongs_to(graph, moment, what.without) && graph.waits(moment)) delays[moment] = 0;
  }
  return step_time_with(graph, delays);
}

WhatIf what_if_of(const std::string& words, const Job& job) {
  if (words == "communication") return {Cause::communication, 0};
  if (words == "host") return {Cause::host, 0};
  if (words == "input") return {Cause::input, 0};
  const auto at = words.starts_with("rank") ? words.find_first_not_of(" =", 4) : words.npos;
  int64_t wanted = 0;
  const auto* end = words.data() + words.size();
  if (at != words.npos && std::from_chars(words.data() + at, end, wanted).ptr == end) {
    for (uint32_t i = 0; i < job.ranks.size(); ++i)
      if (job.ranks[i].rank == wanted) return {Cause::rank, i};
    throw base::ConfigError(base::format("there is no trace of rank {}", wanted),
                            base::format("name a rank from {} to {}", job.ranks.front().rank, job.ranks.back().rank));
  }
  throw base::ConfigError(base::format("\"{}\" is no cause that can be taken out", words),
                          "name communication, host, input, or a rank: rank=3");
}

std::string what_if_text(const WhatIf& what, const Job& job) {
  switch (what.without) {
    case Cause::communication:
      return "communication";
    case Cause::host:
      return "host";
    case Cause::input:
      return "input";
    case Cause::rank:
      return base::format("rank {}", job.ranks[what.rank].rank);
  }
  return {};
}

std::vector<WhatIf> usual_what_ifs(const Job& job) {
  constexpr uint32_t kMostRanks = 8;
  std::vector<WhatIf> all = {{Cause::communication, 0}, {Cause::host, 0}, {Cause::input, 0}};
  if (job.ranks.size() > 1 && job.ranks.size() <= kMostRanks)
    for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) all.push_back({Cause::rank, rank});
  return all;
}

}  // namespace hyperion::analysis

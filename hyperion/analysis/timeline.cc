#include "hyperion/analysis/timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "hyperion/analysis/device_work.h"
#include "hyperion/analysis/host_lanes.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"

namespace hyperion::analysis {
namespace {

constexpr std::array<std::string_view, kPhases> kPhaseTexts = {"", "forward", "recompute", "backward", "update"};
constexpr std::string_view kNode = "autograd::engine::evaluate_function";
constexpr std::array<std::string_view, 5> kPieceTexts = {"compute", "communication", "host", "wait", "input"};

// Of the program's own spans: for a message, or for others.
bool is_wait(std::string_view name) { return name.starts_with("wait "); }

bool is_input(std::string_view name) {
  return name == "data" || name.starts_with("feed ") || name.find("DataLoader") != std::string_view::npos;
}

Phase phase_of(std::string_view name) {
  for (size_t i = 1; i < kPhases; ++i) {
    const auto word = kPhaseTexts[i];
    if (name.starts_with(word) && (name.size() == word.size() || name[word.size()] == ' '))
      return static_cast<Phase>(i);
  }
  return name.starts_with(kNode) ? Phase::backward : Phase::none;
}

// In which span's forward a node of autograd was made, by its number.
class NodeLayers {
 public:
  explicit NodeLayers(const trace::Trace& trace) {
    std::vector<bool> own;
    for (const auto& track : trace.tracks) own.push_back(track.pid == kOwnProcess);
    for (size_t i = 0; i < trace.size(); ++i) {
      if (!own[trace.track[i]] || trace.category(i) != trace::Category::user_annotation) continue;
      const auto first = trace.integer_arg(i, "first_node"), end = trace.integer_arg(i, "end_node");
      if (first >= 0 && first < end) ranges_[first] = {end, trace.name[i]};
    }
  }
  bool empty() const { return ranges_.empty(); }
  uint32_t of(int64_t node) const {
    const auto later = ranges_.upper_bound(node);
    if (later == ranges_.begin()) return trace::kNoString;
    const auto& [end, name] = std::prev(later)->second;
    return node < end ? name : trace::kNoString;
  }

 private:
  std::map<int64_t, std::pair<int64_t, uint32_t>> ranges_;  // by the first node
};

class TimelineMaker {
 public:
  explicit TimelineMaker(trace::Trace&& trace)
      : trace_(std::move(trace)), base_(trace_.facts.base_time_ns), node_layers_(trace_) {
    made_.rank = trace_.facts.rank.value_or(0);
    made_.path = trace_.facts.path;
    made_.collectives = collectives_of(trace_);
    const auto& all = made_.collectives.all;
    for (uint32_t i = 0; i < all.size(); ++i) collective_of_[all[i].event] = i;
    const auto steps = profiler_steps(trace_);
    made_.steps = static_cast<int64_t>(steps.size());
    if (!steps.empty()) {
      begin_ = steps.front().begin;
      for (const auto& step : steps) end_ = end_ == INT64_MAX ? step.end : std::max(end_, step.end);
      for (const auto& step : steps) made_.marks.push_back({base_ + step.begin, base_ + step.end, step.number});
    }
    for (uint32_t id = 0; id < trace_.names.size(); ++id) {
      input_.push_back(is_input(trace_.names[id]));
      kinds_.push_back(work_kind(trace_.names[id]));
      phases_.push_back(phase_of(trace_.names[id]));
      waits_.push_back(is_wait(trace_.names[id]));
      nodes_.push_back(trace_.names[id].starts_with(kNode));
    }
    for (size_t i = 0; i < trace_.size() && !made_.on_device; ++i) made_.on_device = is_device_work(trace_.category(i));
  }

  Timeline make() && {
    for (const auto& lane : host_lanes(trace_, begin_, end_)) add_host_lane(lane);
    add_device_lanes();
    made_.names = std::move(trace_.names);
    return std::move(made_);
  }

 private:
  struct Open {
    uint32_t event = 0;
    int64_t end = 0;
    uint32_t layer = trace::kNoString;  // of what is within
    bool input = false, wait = false;
    Phase phase = Phase::none;
  };

  bool is_call(trace::Category category) const {
    return category == trace::Category::runtime || category == trace::Category::driver;
  }

  PieceKind host_kind(const Open& open) const {
    if (collective_of_.contains(open.event)) return PieceKind::communication;
    if (open.wait) return PieceKind::wait;
    if (open.input) return PieceKind::input;
    return made_.on_device ? PieceKind::host : PieceKind::compute;
  }

  // What the event did itself from one time to another.
  void add_host_piece(const Open& open, uint32_t layer, int64_t from, int64_t to) {
    if (to <= from) return;
    Piece piece;
    piece.begin = base_ + from, piece.end = base_ + to;
    piece.name = trace_.name[open.event];
    const bool node = piece.name != trace::kNoString && nodes_[piece.name];
    piece.layer = node ? open.layer : layer;
    piece.lane = static_cast<uint32_t>(made_.lanes.size() - 1);
    piece.kind = host_kind(open);
    piece.phase = open.phase;
    const auto collective = collective_of_.find(open.event);
    if (collective != collective_of_.end()) piece.collective = collective->second;
    piece.own_span = trace_.category(open.event) == trace::Category::user_annotation && piece.collective == kNoPiece;
    const auto number = static_cast<uint32_t>(made_.pieces.size());
    if (is_call(trace_.category(open.event)) && trace_.correlation(open.event) != trace::kNone)
      calls_.try_emplace(trace_.correlation(open.event), number);
    made_.pieces.push_back(piece);
  }

  void tell_layer(uint32_t event, Phase around, Open& next) const {
    next.phase = around;
    const auto name = trace_.name[event];
    if (name == trace::kNoString) return;
    const bool span = trace_.category(event) == trace::Category::user_annotation && !collective_of_.contains(event);
    if (span) next.layer = name;
    // What comes with an input, but is none: ranks agree on the step there.
    if (span && waits_[name]) next.wait = true, next.input = false;
    // Within a recomputation runs what elsewhere is a forward.
    if ((span || nodes_[name]) && phases_[name] != Phase::none && around != Phase::recompute)
      next.phase = phases_[name];
    if (!nodes_[name] || node_layers_.empty()) return;
    const auto layer = node_layers_.of(trace_.integer_arg(event, "Sequence number"));
    if (layer != trace::kNoString) next.layer = layer;
  }

  void add_host_lane(const HostLane& lane) {
    made_.lanes.push_back({lane.name, false, static_cast<uint32_t>(made_.pieces.size()), 0});
    std::vector<Open> open;
    int64_t now = INT64_MIN;
    const auto layer_around = [&](size_t depth) { return depth < 2 ? trace::kNoString : open[depth - 2].layer; };
    const auto close_until = [&](int64_t time) {
      while (!open.empty() && open.back().end <= time) {
        add_host_piece(open.back(), layer_around(open.size()), now, open.back().end);
        now = std::max(now, open.back().end);
        open.pop_back();
      }
    };
    for (const auto event : lane.events) {
      const int64_t begin = trace_.begin[event];
      close_until(begin);
      if (!open.empty() && collective_of_.contains(open.back().event)) continue;  // a part of the collective
      if (!open.empty()) add_host_piece(open.back(), layer_around(open.size()), now, begin);
      now = std::max(now, begin);
      Open next{event, trace_.end(event), trace::kNoString, false};
      if (!open.empty()) {
        next.end = std::min(next.end, open.back().end);
        next.layer = open.back().layer, next.input = open.back().input;
      }
      if (trace_.name[event] != trace::kNoString) next.input = next.input || input_[trace_.name[event]];
      tell_layer(event, open.empty() ? Phase::none : open.back().phase, next);
      open.push_back(next);
    }
    close_until(INT64_MAX);
    made_.lanes.back().last = static_cast<uint32_t>(made_.pieces.size());
  }

  void add_device_lanes() {
    std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> streams;
    for (size_t i = 0; i < trace_.size(); ++i) {
      if (!is_device_work(trace_.category(i)) || trace_.duration[i] < 0 || trace_.begin[i] == trace::kNoTime) continue;
      const bool launched = calls_.contains(trace_.correlation(i));
      if (!launched && (trace_.begin[i] < begin_ || trace_.begin[i] >= end_)) continue;
      streams[{trace_.device(i), trace_.stream(i)}].push_back(static_cast<uint32_t>(i));
    }
    for (auto& [place, events] : streams) {
      std::sort(events.begin(), events.end(), [&](uint32_t a, uint32_t b) {
        return trace_.begin[a] != trace_.begin[b] ? trace_.begin[a] < trace_.begin[b] : a < b;
      });
      made_.lanes.push_back(
          {base::format("stream {}", place.second), true, static_cast<uint32_t>(made_.pieces.size()), 0});
      int64_t free = INT64_MIN;
      for (const auto event : events) add_device_piece(event, free);
      made_.lanes.back().last = static_cast<uint32_t>(made_.pieces.size());
    }
  }

  // Kernels of one stream may overlap a little: each counts from where the one before it ended.
  void add_device_piece(uint32_t event, int64_t& free) {
    Piece piece;
    const int64_t begin = std::max(trace_.begin[event], free), end = std::max(begin, trace_.end(event));
    free = end;
    piece.begin = base_ + begin, piece.end = base_ + end;
    piece.name = trace_.name[event];
    piece.lane = static_cast<uint32_t>(made_.lanes.size() - 1);
    const bool communication = piece.name != trace::kNoString && kinds_[piece.name] == WorkKind::communication;
    piece.kind = communication ? PieceKind::communication : PieceKind::compute;
    const auto collective = collective_of_.find(event);
    if (collective != collective_of_.end()) piece.collective = collective->second;
    if (const auto call = calls_.find(trace_.correlation(event)); call != calls_.end()) {
      piece.launched = begin_of(call->second);
      piece.layer = made_.pieces[call->second].layer;
      piece.phase = made_.pieces[call->second].phase;
      const auto name = made_.pieces[call->second].name;
      if (name != trace::kNoString && is_graph_launch(trace_.names[name])) tell_of_replayed(event, piece);
    }
    made_.pieces.push_back(piece);
  }

  // What graph_kernels.h found out.
  void tell_of_replayed(uint32_t event, Piece& piece) {
    const auto args = base::Json::parse(trace_.args(event), nullptr, /*allow_exceptions=*/false);
    if (!args.is_object()) return;
    const auto word = [&](const char* key) {
      const auto found = args.find(key);
      return found != args.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    for (size_t i = 1; i < kPhases; ++i)
      if (word(kPhaseArgument) == kPhaseTexts[i]) piece.phase = static_cast<Phase>(i);
    if (const auto layer = word(kLayerArgument); !layer.empty())
      piece.layer = layer == kOutsideBlocks ? trace::kNoString : trace_.names.add("block " + layer);
  }

  trace::Trace trace_;
  int64_t base_;
  int64_t begin_ = INT64_MIN, end_ = INT64_MAX;  // of the steps
  std::vector<bool> input_;                      // by name
  std::vector<WorkKind> kinds_;                  // by name
  std::vector<Phase> phases_;                    // by name
  std::vector<bool> waits_;                      // by name
  std::vector<bool> nodes_;                      // by name: autograd's, in a backward
  NodeLayers node_layers_;
  std::unordered_map<uint32_t, uint32_t> collective_of_;  // by event
  std::unordered_map<int64_t, uint32_t> calls_;           // the first piece of a call, by correlation
  Timeline made_;
};

}  // namespace

std::string_view phase_text(Phase phase) { return kPhaseTexts[static_cast<size_t>(phase)]; }

std::string_view block_of(std::string_view span) {
  for (const std::string_view word : {"block ", "recompute "})
    if (span.starts_with(word)) return span.substr(word.size());
  return {};
}

bool is_graph_launch(std::string_view call) {
  return call.starts_with("cudaGraphLaunch") || call.starts_with("cuGraphLaunch") || call.starts_with("hipGraphLaunch");
}

std::string_view piece_text(PieceKind kind) { return kPieceTexts[static_cast<size_t>(kind)]; }

Timeline timeline_of(trace::Trace&& trace) { return TimelineMaker(std::move(trace)).make(); }

}  // namespace hyperion::analysis

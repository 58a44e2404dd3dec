#include "hyperion/analysis/layer_time.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>

#include "hyperion/analysis/intervals.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

class LayerRows {
 public:
  explicit LayerRows(const Timeline& timeline) : timeline_(timeline) {}

  void add(const Piece& piece) {
    const auto block = block_of_piece(piece);
    const bool own = piece.kind == PieceKind::compute || piece.kind == PieceKind::host;
    // What a block sends, and waits for, is told apart from what it computes.
    const std::string_view name =
        own ? (block.empty() ? std::string_view(kOutsideBlocks) : block) : word_of(piece.kind);
    auto& rows = own && !block.empty() ? blocks_ : others_;
    const auto [at, added] = numbers_.try_emplace(std::string(name), rows.size());
    if (added) rows.push_back({std::string(name), &rows == &blocks_, {}});
    rows[at->second].times[static_cast<size_t>(piece.phase)] += piece.end - piece.begin;
  }

  bool any_block() const { return !blocks_.empty(); }
  std::vector<LayerRow> take() {
    blocks_.insert(blocks_.end(), std::make_move_iterator(others_.begin()), std::make_move_iterator(others_.end()));
    return std::move(blocks_);
  }

 private:
  static std::string_view word_of(PieceKind kind) {
    return kind == PieceKind::communication ? "communication" : kind == PieceKind::input ? "input" : "waiting";
  }
  std::string_view block_of_piece(const Piece& piece) const {
    if (piece.own_span && piece.name != trace::kNoString)
      if (const auto own = block_of(timeline_.names[piece.name]); !own.empty()) return own;
    return piece.layer == trace::kNoString ? std::string_view() : block_of(timeline_.names[piece.layer]);
  }

  const Timeline& timeline_;
  std::vector<LayerRow> blocks_, others_;
  std::unordered_map<std::string, size_t> numbers_;  // a block's name is no word of the others
};

double milliseconds(int64_t time, int64_t steps) {
  return static_cast<double>(time) / 1e6 / static_cast<double>(std::max<int64_t>(steps, 1));
}

struct MeanRow {
  std::string name;
  std::array<double, kPhases> times = {};  // milliseconds a step, of all ranks that have it
  int64_t ranks = 0;
  bool block = false;
  double total() const { return std::accumulate(times.begin(), times.end(), 0.0); }
};

std::vector<MeanRow> mean_rows(const std::vector<LayerTimes>& ranks) {
  std::vector<MeanRow> blocks, others;
  std::unordered_map<std::string, size_t> numbers;
  for (const auto& rank : ranks)
    for (const auto& row : rank.rows) {
      auto& rows = row.block ? blocks : others;
      const auto [at, added] = numbers.try_emplace(row.name, rows.size());
      if (added) rows.push_back({row.name, {}, 0, row.block});
      auto& mean = rows[at->second];
      ++mean.ranks;
      for (size_t i = 0; i < kPhases; ++i) mean.times[i] += milliseconds(row.times[i], rank.steps);
    }
  blocks.insert(blocks.end(), others.begin(), others.end());
  for (auto& row : blocks)
    for (auto& time : row.times) time /= static_cast<double>(row.ranks);
  return blocks;
}

// Of many blocks the longest stay, in their order; the others become one row.
void shorten(std::vector<MeanRow>& rows, size_t top) {
  std::vector<double> totals;
  for (const auto& row : rows)
    if (row.block) totals.push_back(row.total());
  if (totals.size() <= top) return;
  std::nth_element(totals.begin(), totals.begin() + static_cast<std::ptrdiff_t>(top), totals.end(), std::greater<>());
  const double limit = totals[top];
  MeanRow rest;
  std::vector<MeanRow> kept;
  size_t left_out = 0;
  for (auto& row : rows) {
    if (!row.block || row.total() > limit) {
      if (!row.block && left_out > 0 && rest.name.empty()) {
        rest.name = base::format("{} other blocks", left_out);
        kept.push_back(rest);
      }
      kept.push_back(std::move(row));
      continue;
    }
    ++left_out;
    for (size_t i = 0; i < kPhases; ++i) rest.times[i] += row.times[i];
  }
  if (rest.name.empty()) rest.name = base::format("{} other blocks", left_out), kept.push_back(rest);
  rows = std::move(kept);
}

}  // namespace

int64_t LayerRow::total() const { return std::accumulate(times.begin(), times.end(), int64_t{0}); }

int64_t LayerTimes::step() const {
  int64_t sum = idle - at_once;
  for (const auto& row : rows) sum += row.total();
  return sum;
}

LayerTimes layer_times(const Timeline& timeline) {
  LayerTimes found;
  found.rank = timeline.rank, found.on_device = timeline.on_device;
  found.steps = std::max<int64_t>(timeline.steps, 1);
  LayerRows rows(timeline);
  std::vector<Interval> ran;
  for (size_t i = 0; i < timeline.lanes.size(); ++i) {
    const auto& lane = timeline.lanes[i];
    if (timeline.on_device ? !lane.device : i > 0) continue;  // a host's first lane has the steps
    for (uint32_t p = lane.first; p < lane.last; ++p) {
      const auto& piece = timeline.pieces[p];
      rows.add(piece);
      ran.push_back({piece.begin, piece.end});
    }
  }
  if (!rows.any_block() || ran.empty()) return found;
  found.rows = rows.take();
  std::sort(ran.begin(), ran.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  int64_t begin = ran.front().begin, end = begin, sum = 0;
  Intervals all;
  for (const auto& interval : ran) {
    add_interval(all, interval);
    end = std::max(end, interval.end), sum += interval.end - interval.begin;
  }
  for (const auto& mark : timeline.marks) begin = std::min(begin, mark.begin), end = std::max(end, mark.end);
  found.idle = end - begin - length_of(all);
  found.at_once = sum - length_of(all);
  return found;
}

bool has_own_spans(const trace::Trace& trace) {
  return std::any_of(trace.tracks.begin(), trace.tracks.end(),
                     [](const trace::Track& track) { return track.pid == kOwnProcess; });
}

std::vector<Table> layer_tables(const std::vector<LayerTimes>& ranks, size_t top) {
  std::vector<LayerTimes> told;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(told),
               [](const LayerTimes& rank) { return !rank.rows.empty(); });
  if (told.empty()) return {};
  double step = 0, idle = 0, at_once = 0;
  for (const auto& rank : told) {
    const double share = 1 / static_cast<double>(told.size());
    step += share * milliseconds(rank.step(), rank.steps), idle += share * milliseconds(rank.idle, rank.steps);
    at_once += share * milliseconds(rank.at_once, rank.steps);
  }
  auto rows = mean_rows(told);
  shorten(rows, top);
  rows.push_back({"idle", {idle}, 0, false});
  std::array<bool, kPhases> used{};
  for (const auto& row : rows)
    for (size_t i = 0; i < kPhases; ++i) used[i] = used[i] || row.times[i] > 0;
  Table table{.title = base::format("blocks, ms of a step ({}){}",
                                    told.front().on_device ? "on the device" : "on the first thread",
                                    told.size() > 1 ? ", mean of the ranks that have them" : ""),
              .rows = {{"block"}},
              .text_columns = {0}};
  auto& head = table.rows.front();
  for (size_t i = 1; i < kPhases; ++i)
    if (used[i]) head.emplace_back(phase_text(static_cast<Phase>(i)));
  head.insert(head.end(), {"other", "all", "%"});
  for (const auto& row : rows) {
    std::vector<std::string> cells = {short_name(row.name, 48)};
    const auto cell = [](double time) { return time > 0 ? base::format("{:.3f}", time) : std::string("-"); };
    for (size_t i = 1; i < kPhases; ++i)
      if (used[i]) cells.push_back(cell(row.times[i]));
    cells.push_back(cell(row.times[0]));
    cells.push_back(base::format("{:.3f}", row.total()));
    cells.push_back(base::format("{:.1f}", step > 0 ? 100 * row.total() / step : 0));
    table.rows.push_back(std::move(cells));
  }
  if (at_once > 0)
    table.note =
        base::format("{:.3f} ms of these ran beside each other, so that they add up to more than a step", at_once);
  return {table};
}

base::Json layers_json(const std::vector<LayerTimes>& ranks) {
  base::Json all = base::Json::array();
  for (const auto& rank : ranks) {
    if (rank.rows.empty()) continue;
    base::Json rows = base::Json::array();
    const auto us = [&](int64_t time) { return 1e3 * milliseconds(time, rank.steps); };
    for (const auto& row : rank.rows) {
      base::Json times = base::Json::object();
      for (size_t i = 0; i < kPhases; ++i)
        times[i == 0 ? "other" : std::string(phase_text(static_cast<Phase>(i)))] = us(row.times[i]);
      rows.push_back({{"name", row.name}, {"block", row.block}, {"times_us", std::move(times)}});
    }
    all.push_back({{"rank", rank.rank},
                   {"on_device", rank.on_device},
                   {"step_us", us(rank.step())},
                   {"idle_us", us(rank.idle)},
                   {"at_once_us", us(rank.at_once)},
                   {"rows", std::move(rows)}});
  }
  return all;
}

}  // namespace hyperion::analysis

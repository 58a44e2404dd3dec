#include "hyperion/analysis/path_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

using Row = std::vector<std::string>;

std::string ms_text(double nanoseconds) { return base::format("{:.3f}", nanoseconds / 1e6); }
std::string part_text(double part, double whole) {
  return whole > 0 ? base::format("{:.1f}", 100 * part / whole) : "-";
}

// Of a job's times those of a step.
class PerStep {
 public:
  PerStep(const Job& job, const PathReport& report)
      : steps_(static_cast<double>(job.steps())), all_(static_cast<double>(report.path.length())) {}
  double step(int64_t time) const { return static_cast<double>(time) / steps_; }
  Row row(const std::string& name, int64_t time) const {
    return {name, ms_text(step(time)), part_text(static_cast<double>(time), all_)};
  }

 private:
  double steps_, all_;
};

void add_sums(Table& table, const std::vector<PathSum>& sums, const PerStep& per, size_t top) {
  for (size_t i = 0; i < std::min(top, sums.size()); ++i)
    table.rows.push_back(per.row(short_name(sums[i].name), sums[i].time));
  if (sums.size() > top) table.note = base::format("and {} others", sums.size() - top);
}

base::Json sums_json(const std::vector<PathSum>& sums, const PerStep& per, size_t top) {
  base::Json list = base::Json::array();
  for (size_t i = 0; i < std::min(top, sums.size()); ++i)
    list.push_back(
        {{"name", sums[i].name}, {"step_us", per.step(sums[i].time) / 1000}, {"segments", sums[i].segments}});
  return list;
}

std::string lacking_note(const std::vector<std::string>& lacking) {
  constexpr size_t kMost = 3;
  std::string note;
  for (size_t i = 0; i < std::min(kMost, lacking.size()); ++i) note.append(i == 0 ? "" : "\n").append(lacking[i]);
  if (lacking.size() > kMost) note.append(base::format("\nand {} more that a rank lacks", lacking.size() - kMost));
  return note;
}

Table bubble_table(const PipelineBubble& bubble) {
  Table table{.title = "pipeline, ms a step",
              .rows = {{"rank", "stages", "work", "before", "between", "after", "bubble %"}}};
  const auto ms = [&](int64_t time) { return ms_text(static_cast<double>(time) / static_cast<double>(bubble.steps)); };
  for (const auto& rank : bubble.ranks) {
    std::string stages;
    for (const auto stage : rank.stages) stages += base::format("{}{}", stages.empty() ? "" : ", ", stage);
    table.rows.push_back({base::format("{}", rank.rank), stages, ms(rank.work), ms(rank.before), ms(rank.between),
                          ms(rank.after), base::format("{:.1f}", bubble.percent(rank))});
  }
  table.note = base::format("bubble of all ranks: {:.1f}% of {} ms", bubble.percent(), ms(bubble.time));
  if (bubble.apart) table.note += "; clocks are not known, so that all of it counts as between";
  return table;
}

}  // namespace

PathReport path_report(const JobGraph& graph, const std::vector<WhatIf>& what_ifs) {
  PathReport report;
  report.path = critical_path(graph);
  report.sums = sums_of(graph.job(), report.path);
  report.step = step_time(graph);
  for (const auto& what : what_ifs) report.without.push_back({what, step_time_without(graph, what)});
  return report;
}

std::vector<Table> path_tables(const Job& job, const PathReport& report, size_t top) {
  const PerStep per(job, report);
  std::vector<Table> tables;
  tables.push_back({.title = base::format("critical path over {} ranks, {} a step: by kind, ms", job.ranks.size(),
                                          base::format("{:.3f} ms", report.step / 1e6)),
                    .rows = {{"kind", "ms", "%"}},
                    .text_columns = {0}});
  for (size_t kind = 0; kind < report.sums.by_kind.size(); ++kind)
    if (report.sums.by_kind[kind] > 0)
      tables.back().rows.push_back(
          per.row(std::string(piece_text(static_cast<PieceKind>(kind))), report.sums.by_kind[kind]));
  tables.back().note = lacking_note(job.collectives.lacking);
  tables.push_back({.title = "by rank", .rows = {{"rank", "ms", "%"}}});
  for (size_t rank = 0; rank < job.ranks.size(); ++rank)
    if (report.sums.by_rank[rank] > 0)
      tables.back().rows.push_back(per.row(base::format("{}", job.ranks[rank].rank), report.sums.by_rank[rank]));
  tables.push_back({.title = "by name", .rows = {{"name", "ms", "%"}}, .text_columns = {0}});
  add_sums(tables.back(), report.sums.by_name, per, top);
  if (!report.sums.by_layer.empty()) {
    tables.push_back({.title = "by span of the program", .rows = {{"span", "ms", "%"}}, .text_columns = {0}});
    add_sums(tables.back(), report.sums.by_layer, per, top);
  }
  if (!report.without.empty()) {
    tables.push_back({.title = "a step without it", .rows = {{"without", "ms", "saved %"}}, .text_columns = {0}});
    for (const auto& each : report.without)
      tables.back().rows.push_back(
          {what_if_text(each.what, job), ms_text(each.step), part_text(report.step - each.step, report.step)});
  }
  return tables;
}

base::Json path_json(const Job& job, const PathReport& report, size_t top) {
  const PerStep per(job, report);
  base::Json kinds = base::Json::object(), ranks = base::Json::array(), segments = base::Json::array();
  for (size_t kind = 0; kind < report.sums.by_kind.size(); ++kind)
    kinds[std::string(piece_text(static_cast<PieceKind>(kind)))] = per.step(report.sums.by_kind[kind]) / 1000;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const auto& clock = job.clocks[rank];
    ranks.push_back(
        {{"rank", job.ranks[rank].rank},
         {"file", job.ranks[rank].path},
         {"step_us", per.step(report.sums.by_rank[rank]) / 1000},
         {"clock_offset_us", clock.known ? base::Json(static_cast<double>(clock.nanoseconds) / 1000) : base::Json()}});
  }
  for (const auto& segment : report.path.segments) {
    const auto& rank = job.ranks[segment.rank];
    const auto& piece = rank.pieces[segment.piece];
    segments.push_back(
        {{"rank", rank.rank},
         {"lane", rank.lanes[piece.lane].name},
         {"name", segment_name(job, segment)},
         {"span", piece.layer == trace::kNoString ? base::Json() : base::Json(std::string(rank.names[piece.layer]))},
         {"kind", piece_text(segment.kind)},
         {"begin_us", static_cast<double>(segment.begin) / 1000},
         {"duration_us", static_cast<double>(segment.end - segment.begin) / 1000}});
  }
  base::Json without = base::Json::array();
  for (const auto& each : report.without)
    without.push_back({{"without", what_if_text(each.what, job)}, {"step_us", each.step / 1000}});
  return {{"steps", job.steps()},
          {"step_us", report.step / 1000},
          {"kinds_step_us", std::move(kinds)},
          {"ranks", std::move(ranks)},
          {"names", sums_json(report.sums.by_name, per, top)},
          {"spans", sums_json(report.sums.by_layer, per, top)},
          {"without", std::move(without)},
          {"lacking", job.collectives.lacking},
          {"segments", std::move(segments)}};
}

std::vector<Table> communication_tables(const std::vector<RankCommunication>& ranks, const JobCommunication& job) {
  std::vector<Table> tables;
  if (job.groups.empty()) return tables;
  tables.push_back(
      {.title = "communication by group, ms a step and rank",
       .rows = {{"group", "axis", "ranks", "collectives", "ms", "exposed", "exposed %", "waited for ranks"}},
       .text_columns = {0, 1}});
  const auto steps = static_cast<double>(std::max<int64_t>(job.steps, 1));
  for (const auto& group : job.groups)
    tables.back().rows.push_back({short_name(group.group), group.axis.empty() ? "-" : group.axis,
                                  base::format("{}", group.ranks), base::with_commas(group.collectives),
                                  ms_text(static_cast<double>(group.time) / steps),
                                  ms_text(static_cast<double>(group.exposed) / steps),
                                  part_text(static_cast<double>(group.exposed), static_cast<double>(group.time)),
                                  ms_text(static_cast<double>(group.waited) / steps)});
  tables.back().note = lacking_note(job.collectives.lacking);
  if (job.bubble) tables.push_back(bubble_table(*job.bubble));
  if (ranks.size() < 2) return tables;
  tables.push_back({.title = "clocks, from their collectives",
                    .rows = {{"rank", "ahead of the first, ms", "+-, ms", "collectives"}}});
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto& clock = job.clocks[i];
    tables.back().rows.push_back(
        {base::format("{}", ranks[i].rank), clock.known ? ms_text(static_cast<double>(clock.nanoseconds)) : "not known",
         clock.known ? ms_text(static_cast<double>(clock.uncertainty)) : "-", base::with_commas(clock.collectives)});
  }
  return tables;
}

}  // namespace hyperion::analysis

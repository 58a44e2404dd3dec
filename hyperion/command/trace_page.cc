#include "hyperion/command/trace_page.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hyperion/analysis/findings.h"
#include "hyperion/analysis/path_report.h"
#include "hyperion/analysis/step_lanes.h"
#include "hyperion/analysis/waits.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"
#include "hyperion/report/html.h"
#include "hyperion/report/markup.h"
#include "hyperion/report/timeline.h"

namespace hyperion::cli {
namespace {

using analysis::BoxKind;
using analysis::RankTime;
using analysis::TimePart;
using base::format;

constexpr int kPageWidth = 1064;
constexpr size_t kMostPlots = 16, kMostRankRows = 2000, kMostBars = 512;
// In TimelineBox's palette: what is of one kind has one color in all pictures.
constexpr int kComputeColor = 0, kOverlapColor = 1, kMemoryColor = 3, kCommunicationColor = 4, kInputColor = 5,
              kLateColor = 6, kWaitColor = 7, kIdleColor = 8, kShortColor = 9;
constexpr int kPartColors[analysis::kTimeParts] = {kComputeColor, kOverlapColor, kCommunicationColor,
                                                   kMemoryColor,  kWaitColor,    kInputColor,
                                                   kLateColor,    kShortColor,   kIdleColor};
constexpr int kBoxKindColors[analysis::kBoxKinds] = {kComputeColor, kCommunicationColor, kMemoryColor,
                                                     kOverlapColor, kWaitColor,          kInputColor};

// What there is of a job whose ranks are held beside each other.
struct Path {
  explicit Path(std::vector<analysis::Timeline> ranks) : job(analysis::make_job(std::move(ranks))) {
    if (job.ranks.size() < 2 && job.steps() < 2) return;
    const analysis::JobGraph graph(job);
    report = analysis::path_report(graph, analysis::usual_what_ifs(job));
  }
  const analysis::PathReport* told() const { return report ? &*report : nullptr; }

  analysis::Job job;
  std::optional<analysis::PathReport> report;
};

std::string milliseconds(double nanoseconds) { return format("{:.3f} ms", nanoseconds / 1e6); }
std::string paragraph(const std::string& text) {
  return text.empty() ? "" : format("<p class=\"muted\">{}</p>\n", report::escaped(text));
}

std::string tables_html(const std::vector<analysis::Table>& tables) {
  std::string out;
  for (const auto& table : tables) {
    const std::vector<std::vector<std::string>> rows(table.rows.begin() + 1, table.rows.end());
    out += format("<h3>{}</h3>\n", report::escaped(table.title)) + report::table(table.rows.front(), rows);
    out += paragraph(table.note);
  }
  return out;
}

std::string lead_of(const AnalyzedTraces& found) {
  int64_t events = 0, steps = 0;
  for (const auto& rank : found.ranks) events += rank.events, steps = std::max(steps, rank.steps);
  const auto words = [](int64_t count, const char* one) {
    return format("{} {}{}", base::with_commas(count), one, count == 1 ? "" : "s");
  };
  const auto& path = found.ranks.front().path;
  return format("{}, {}{}{}{}", words(std::ssize(found.ranks), "rank"), words(events, "event"),
                steps > 0 ? ", " + words(steps, "step") : "", path.empty() ? "" : ": " + base::printable_line(path),
                found.ranks.size() > 1 && !path.empty() ? " and others" : "");
}

std::vector<RankTime> times_of(const AnalyzedTraces& found) {
  std::vector<RankTime> times;
  for (const auto& rank : found.ranks) {
    const auto timeline = std::find_if(found.timelines.begin(), found.timelines.end(),
                                       [&](const auto& each) { return each.rank == rank.rank; });
    const bool host = rank.device_events == 0 && timeline != found.timelines.end() && !timeline->on_device;
    times.push_back(host ? analysis::rank_time(*timeline) : analysis::rank_time(rank));
  }
  return times;
}

double mean_percent(const std::vector<RankTime>& times, std::initializer_list<TimePart> parts) {
  double sum = 0;
  for (const auto& rank : times)
    for (const auto part : parts) sum += rank.percent(part);
  return times.empty() ? 0 : sum / static_cast<double>(times.size());
}

std::string summary_html(const AnalyzedTraces& found, const std::vector<RankTime>& times,
                         const std::vector<analysis::Finding>& findings, const Path* path) {
  std::vector<report::Card> cards;
  if (path != nullptr && path->report)
    cards.push_back({"step", milliseconds(path->report->step), "from the first rank's begin to the last one's end"});
  const auto part = [&](const char* name, const char* note, std::initializer_list<TimePart> parts) {
    cards.push_back({name, format("{:.1f}%", mean_percent(times, parts)), note});
  };
  part("compute", "of a rank's time, mean of ranks", {TimePart::compute, TimePart::overlapped});
  part("communication alone", "no computation beside it", {TimePart::exposed});
  const bool device = std::any_of(times.begin(), times.end(), [](const RankTime& rank) { return rank.on_device; });
  part("idle", device ? "nothing ran" : "nothing is recorded",
       {TimePart::host_wait, TimePart::kernel_wait, TimePart::idle});
  int64_t peak = 0;
  for (const auto& rank : found.memory)
    for (const auto& device : rank.devices) peak = std::max(peak, device.peak);
  if (peak > 0) cards.push_back({"memory", base::bytes_text(static_cast<uint64_t>(peak)), "the most of a device"});
  std::vector<std::string> sentences;
  for (const auto& finding : findings) sentences.push_back(finding.text);
  return report::section(
      "What to look at first",
      report::cards(cards) +
          (sentences.empty() ? paragraph("Nothing that takes 3% of a step stands out.") : report::ranked(sentences)),
      "first");
}

std::string times_picture(const std::string& title, const std::vector<RankTime>& times) {
  std::vector<report::TimelineRow> rows;
  std::vector<bool> used(analysis::kTimeParts);
  for (const auto& rank : times) {
    const double unit = 1e6 * static_cast<double>(std::max<int64_t>(rank.steps, 1));
    report::TimelineRow row{format("rank {}{}", rank.rank, rank.on_device ? "" : " (host)"), {}};
    double now = 0;
    for (size_t i = 0; i < analysis::kTimeParts; ++i) {
      const auto part = static_cast<TimePart>(i);
      const double time = static_cast<double>(rank.at(part)) / unit;
      if (time <= 0) continue;
      used[i] = true;
      row.boxes.push_back(
          {now, now + time, kPartColors[i], format("{:.1f}%", rank.percent(part)),
           format("rank {}, {}: {:.3f} ms, {:.1f}%", rank.rank, analysis::part_text(part), time, rank.percent(part))});
      now += time;
    }
    if (rows.size() < kMostBars) rows.push_back(std::move(row));
  }
  std::vector<report::TimelineKind> legend;
  for (size_t i = 0; i < analysis::kTimeParts; ++i)
    if (used[i]) legend.push_back({std::string(analysis::part_text(static_cast<TimePart>(i))), kPartColors[i]});
  return report::picture(report::timeline_svg(title, rows, legend, {.width = kPageWidth, .unit = "ms"}));
}

std::string all_times(const std::vector<RankTime>& times) {
  const bool steps = std::any_of(times.begin(), times.end(), [](const RankTime& rank) { return rank.steps > 0; });
  auto out =
      times_picture(steps ? "A step of each rank, mean of its steps" : "All that was recorded of each rank", times);
  if (times.size() > kMostBars) out += paragraph(format("Of {} ranks the first {}.", times.size(), kMostBars));
  return out;
}

std::string hint_of(const analysis::Timeline& rank, const analysis::LaneBox& box) {
  const auto name = box.name == trace::kNoString ? std::string(analysis::box_text(box.kind))
                                                 : analysis::short_name(rank.names[box.name], 48);
  const double begin = static_cast<double>(box.begin) / 1e6, time = static_cast<double>(box.end - box.begin) / 1e3;
  return box.pieces == 1 ? format("{}: {:.2f} us at {:.3f} ms", name, time, begin)
                         : format("{} of {}, {:.2f} us at {:.3f} ms, the longest {}", box.pieces,
                                  analysis::box_text(box.kind), time, begin, name);
}

std::string lanes_html(const analysis::Job& job) {
  const auto step = analysis::step_lanes(job);
  std::vector<report::TimelineRow> rows;
  std::vector<bool> used(analysis::kBoxKinds);
  for (const auto& lane : step.lanes) {
    const auto& rank = job.ranks[lane.rank];
    report::TimelineRow row{format("rank {}, {}", rank.rank, report::shortened(base::printable_line(lane.name), 24)),
                            {}};
    for (const auto& box : lane.boxes) {
      const auto kind = static_cast<size_t>(box.kind);
      used[kind] = true;
      row.boxes.push_back({static_cast<double>(box.begin) / 1e6, static_cast<double>(box.end) / 1e6,
                           kBoxKindColors[kind], "", hint_of(rank, box)});
    }
    rows.push_back(std::move(row));
  }
  std::vector<report::TimelineKind> legend;
  for (size_t i = 0; i < analysis::kBoxKinds; ++i)
    if (used[i]) legend.push_back({std::string(analysis::box_text(static_cast<BoxKind>(i))), kBoxKindColors[i]});
  const auto title =
      step.number == trace::kNone ? std::string("All that was recorded") : format("Step {} of every rank", step.number);
  std::string note = "Point at a box to read what it is; what is too short to be seen is put together by kind.";
  if (step.apart)
    note += " The ranks' clocks could not be put together: each rank begins with its own step.";
  else if (job.ranks.size() > 1)
    note += " The ranks' clocks are put together by their collectives, as far as they have some.";
  if (step.left_out > 0) note += format(" {} less busy threads and streams are left out.", step.left_out);
  return report::picture(report::timeline_svg(
             title, rows, legend,
             {.width = kPageWidth, .row_height = 18, .outlined = false, .ground = true, .unit = "ms"})) +
         paragraph(note);
}

std::string memory_html(const std::vector<RankMemory>& memory, size_t top) {
  std::vector<report::Plot> plots;
  for (const auto& rank : memory) {
    if (rank.devices.empty() || plots.size() == kMostPlots) continue;
    report::Plot plot;
    plot.title = format("Rank {}: allocated", rank.rank), plot.x_label = "ms", plot.y_label = "MiB";
    for (const auto& device : rank.devices) {
      report::Series series{device.gpu ? format("GPU {}", device.device) : "CPU", {}, {}};
      for (const auto& point : device.points) {
        series.x.push_back(static_cast<double>(point.time) / 1e6);
        series.y.push_back(static_cast<double>(point.bytes) / (1 << 20));
      }
      plot.series.push_back(std::move(series));
    }
    plots.push_back(std::move(plot));
  }
  if (plots.empty()) return {};
  auto body = report::plot_grid(plots, plots.size() == 1);
  if (memory.size() == 1) body += tables_html(analysis::memory_tables(memory[0].rank, memory[0].devices, top));
  return body;
}

std::string rank_html(const analysis::RankAnalysis& rank, const RankTime& time, const RankMemory* memory, size_t top) {
  std::string body = report::facts({{"file", base::printable_line(rank.path)},
                                    {"events", base::with_commas(rank.events)},
                                    {"steps", rank.steps > 0 ? format("{}", rank.steps) : "none marked"}});
  body += times_picture(time.steps > 0 ? "A step, mean of its steps" : "All that was recorded", {time});
  body += report::folded("Its tables", tables_html(analysis::analysis_tables({rank}, top)));
  if (memory != nullptr && !memory->devices.empty())
    body +=
        report::folded("Who held its memory", tables_html(analysis::memory_tables(rank.rank, memory->devices, top)));
  return report::section(format("Rank {}", rank.rank), body, format("rank-{}", rank.rank));
}

// A section that is left out where it has no content, and the link to it.
struct Sections {
  std::string body;
  std::vector<std::pair<std::string, std::string>> to = {{"first", "What to look at first"}};

  void add(const char* id, const char* heading, const std::string& content) {
    if (content.empty()) return;
    body += report::section(heading, content, id);
    to.emplace_back(id, heading);
  }
};

}  // namespace

void add_for_page(AnalyzedTraces& found, trace::Trace&& trace) {
  const auto rank = trace.facts.rank.value_or(0);
  auto memory = analysis::memory_timelines(trace);
  if (!memory.empty()) found.memory.push_back({rank, std::move(memory)});
  auto timeline = analysis::timeline_of(std::move(trace));
  if (timeline.pieces.empty()) return;
  found.layers.push_back(analysis::layer_times(timeline));
  analysis::find_waits(timeline);
  found.timelines.push_back(std::move(timeline));
}

std::string trace_page(AnalyzedTraces& found, const analysis::JobCommunication& communication, size_t top) {
  const auto times = times_of(found);
  std::optional<Path> path;
  if (!found.timelines.empty()) path.emplace(std::move(found.timelines));
  const auto* report = path ? path->told() : nullptr;
  const auto findings = analysis::findings(found.ranks, times, communication, path ? &path->job : nullptr, report);
  Sections sections;
  sections.add("time", "Where each rank's time went", all_times(times));
  if (path) sections.add("lanes", "A step, by threads and streams", lanes_html(path->job));
  if (report != nullptr)
    sections.add("path", "Critical path", tables_html(analysis::path_tables(path->job, *report, top)));
  sections.add("memory", "Memory", memory_html(found.memory, top));
  auto tables = analysis::analysis_tables(found.ranks, top);
  for (auto& table : analysis::communication_tables(found.communication, communication))
    tables.push_back(std::move(table));
  sections.add("layers", "Where it was in the model", tables_html(analysis::layer_tables(found.layers, top)));
  sections.add("tables", "All ranks together", tables_html(tables));
  const size_t rows = std::min(top, std::max<size_t>(3, kMostRankRows / found.ranks.size()));
  for (size_t i = 0; i < found.ranks.size() && found.ranks.size() > 1; ++i) {
    const auto& rank = found.ranks[i];
    const auto memory = std::find_if(found.memory.begin(), found.memory.end(),
                                     [&](const RankMemory& each) { return each.rank == rank.rank; });
    sections.body += rank_html(rank, times[i], memory == found.memory.end() ? nullptr : &*memory, rows);
    sections.to.emplace_back(format("rank-{}", rank.rank), format("Rank {}", rank.rank));
  }
  const auto summary = summary_html(found, times, findings, path ? &*path : nullptr);
  return report::html_page("Where the time went", lead_of(found), report::links(sections.to) + summary + sections.body);
}

}  // namespace hyperion::cli

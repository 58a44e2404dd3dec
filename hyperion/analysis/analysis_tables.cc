#include "hyperion/analysis/analysis_tables.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"

namespace hyperion::analysis {
namespace {

using base::format;

std::string milliseconds(double nanoseconds) { return format("{:.3f}", nanoseconds / 1e6); }
std::string milliseconds(int64_t nanoseconds) { return milliseconds(static_cast<double>(nanoseconds)); }
std::string microseconds(double nanoseconds) { return format("{:.2f}", nanoseconds / 1e3); }
std::string percent(double part, double whole) { return whole > 0 ? format("{:.1f}", 100 * part / whole) : "-"; }
std::string percent(int64_t part, int64_t whole) {
  return percent(static_cast<double>(part), static_cast<double>(whole));
}

Table times_table(const std::vector<RankAnalysis>& ranks) {
  Table table{.title = "time on the device, ms",
              .rows = {{"rank", "steps", "idle", "compute", "non-compute", "all", "idle %", "compute %",
                        "non-compute %", "communication", "overlapped %"}}};
  int64_t left_out = 0;
  for (const auto& rank : ranks) {
    const auto& times = rank.times;
    const auto overlap = times.overlap_percent();
    left_out += rank.left_out;
    table.rows.push_back({format("{}", rank.rank), rank.steps > 0 ? format("{}", rank.steps) : "-",
                          milliseconds(times.idle), milliseconds(times.compute), milliseconds(times.non_compute),
                          milliseconds(times.total), percent(times.idle, times.total),
                          percent(times.compute, times.total), percent(times.non_compute, times.total),
                          milliseconds(times.communication), overlap ? format("{:.1f}", *overlap) : "-"});
  }
  if (left_out > 0)
    table.note = format("left out: {} kernels of the last ProfilerStep, or without a launch (--last-step takes it in)",
                        base::with_commas(left_out));
  return table;
}

Table idle_table(const std::vector<RankAnalysis>& ranks) {
  Table table{.title = "idle by cause, ms",
              .rows = {{"rank", "stream", "host wait", "kernel wait", "other", "host wait %", "kernel wait %",
                        "other %", "gaps"}}};
  for (const auto& rank : ranks)
    for (const auto& row : rank.idle)
      table.rows.push_back({format("{}", rank.rank), format("{}", row.stream), milliseconds(row.host_wait),
                            milliseconds(row.kernel_wait), milliseconds(row.other), percent(row.host_wait, row.idle()),
                            percent(row.kernel_wait, row.idle()), percent(row.other, row.idle()),
                            base::with_commas(row.gaps)});
  return table;
}

Table kinds_table(const std::vector<RankAnalysis>& ranks) {
  static constexpr const char* kWords[] = {"",
                                           "computation",
                                           "communication",
                                           "computation and communication",
                                           "memory",
                                           "computation and memory",
                                           "communication and memory",
                                           "all three"};
  std::array<int64_t, 8> sums = {};
  int64_t all = 0;
  for (const auto& rank : ranks)
    for (size_t mask = 1; mask < 8; ++mask) sums[mask] += rank.times.by_kinds[mask], all += rank.times.by_kinds[mask];
  Table table{.title = "what ran at once", .rows = {{"what", "ms", "%"}}, .text_columns = {0}};
  std::array<size_t, 7> order = {1, 2, 3, 4, 5, 6, 7};
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  for (const size_t mask : order)
    if (sums[mask] > 0) table.rows.push_back({kWords[mask], milliseconds(sums[mask]), percent(sums[mask], all)});
  return table;
}

// Of all ranks: what is added up is, and the spread is that of all spans together.
std::vector<KernelRow> merged_kernels(const std::vector<RankAnalysis>& ranks) {
  if (ranks.size() == 1) return ranks[0].kernels;
  struct Merged {
    KernelRow row;
    double squares = 0;  // about 0
  };
  std::map<std::string, Merged> by_name;
  for (const auto& rank : ranks)
    for (const auto& kernel : rank.kernels) {
      auto& [row, squares] = by_name[kernel.name];
      const auto count = static_cast<double>(kernel.count);
      row.kind = kernel.kind;
      row.shortest = row.count == 0 ? kernel.shortest : std::min(row.shortest, kernel.shortest);
      row.longest = std::max(row.longest, kernel.longest);
      row.count += kernel.count, row.sum += kernel.sum;
      squares += kernel.deviation * kernel.deviation * (count - 1) + kernel.mean * kernel.mean * count;
    }
  std::vector<KernelRow> rows;
  for (auto& [name, merged] : by_name) {
    auto& row = merged.row;
    const auto count = static_cast<double>(row.count);
    row.name = name;
    row.mean = static_cast<double>(row.sum) / count;
    row.deviation =
        row.count > 1 ? std::sqrt(std::max(0.0, merged.squares - row.mean * row.mean * count) / (count - 1)) : 0;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const KernelRow& a, const KernelRow& b) { return a.sum > b.sum; });
  return rows;
}

Table kernels_table(const std::vector<RankAnalysis>& ranks, size_t top) {
  Table table{.title = "kernels",
              .rows = {{"kernel", "kind", "count", "ms", "%", "mean us", "min us", "max us", "stddev us"}},
              .text_columns = {0, 1}};
  const auto rows = merged_kernels(ranks);
  int64_t all = 0, others = 0, other_count = 0;
  for (const auto& row : rows) all += row.sum;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    if (i >= top) {
      others += row.sum, other_count += row.count;
      continue;
    }
    table.rows.push_back({short_name(row.name), std::string(kind_text(row.kind)), base::with_commas(row.count),
                          milliseconds(row.sum), percent(row.sum, all), microseconds(row.mean),
                          microseconds(static_cast<double>(row.shortest)),
                          microseconds(static_cast<double>(row.longest)), microseconds(row.deviation)});
  }
  if (rows.size() > top)
    table.rows.push_back({format("{} others", rows.size() - top), "", base::with_commas(other_count),
                          milliseconds(others), percent(others, all), "", "", "", ""});
  return table;
}

Table operators_table(const std::vector<RankAnalysis>& ranks, size_t top) {
  std::map<std::string, OperatorRow> by_name;
  for (const auto& rank : ranks)
    for (const auto& row : rank.operators) {
      auto& sum = by_name[row.name];
      sum.name = row.name;
      sum.count += row.count, sum.self += row.self, sum.total += row.total, sum.device += row.device;
    }
  std::vector<OperatorRow> rows;
  int64_t all = 0;
  for (auto& [name, row] : by_name) all += row.self, rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OperatorRow& a, const OperatorRow& b) { return a.self > b.self; });
  Table table{.title = "operators on the host, by their own time",
              .rows = {{"operator", "count", "own ms", "%", "with its calls ms", "on the device ms"}},
              .text_columns = {0}};
  for (size_t i = 0; i < std::min(top, rows.size()); ++i)
    table.rows.push_back({short_name(rows[i].name), base::with_commas(rows[i].count), milliseconds(rows[i].self),
                          percent(rows[i].self, all), milliseconds(rows[i].total), milliseconds(rows[i].device)});
  return table;
}

}  // namespace

std::string short_name(std::string_view name, size_t most) {
  // A function of autograd that is no operator of LibTorch is known by its argument alone.
  constexpr std::string_view kOwnNode = "torch::autograd::CppNode<", kBackward = " backward";
  if (name.starts_with(kOwnNode) && name.ends_with('>') && most > kBackward.size())
    return short_name(name.substr(kOwnNode.size(), name.size() - kOwnNode.size() - 1), most - kBackward.size())
        .append(kBackward);
  std::string kept;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool arrow = c == '>' && i > 0 && name[i - 1] == '-';
    const bool copy = name.starts_with("Mem");  // "Memcpy DtoD (Device -> Device)" is whole
    if (!copy && (c == '<' || c == '(')) ++depth;
    if (depth == 0) kept.push_back(c);
    if (!copy && depth > 0 && ((c == '>' && !arrow) || c == ')')) --depth;
  }
  for (size_t at = kept.find("::::"); at != std::string::npos; at = kept.find("::::")) kept.erase(at, 2);
  if (kept.starts_with("void ")) kept.erase(0, 5);
  while (!kept.empty() && kept.back() == ' ') kept.pop_back();
  if (kept.empty()) kept = name;
  if (kept.size() > most) {
    size_t cut = most - 3;
    while (cut > 0 && (static_cast<unsigned char>(kept[cut]) & 0xC0) == 0x80) --cut;  // not within a character
    kept = kept.substr(0, cut) + "...";
  }
  return base::printable_line(kept);
}

std::vector<Table> analysis_tables(const std::vector<RankAnalysis>& ranks, size_t top) {
  std::vector<Table> tables;
  const auto add = [&](Table table) {
    if (table.rows.size() > 1) tables.push_back(std::move(table));
  };
  const bool device =
      std::any_of(ranks.begin(), ranks.end(), [](const RankAnalysis& rank) { return rank.device_events > 0; });
  if (device) {
    add(times_table(ranks));
    add(idle_table(ranks));
    add(kinds_table(ranks));
    add(kernels_table(ranks, top));
  }
  add(operators_table(ranks, top));
  return tables;
}

std::vector<Table> summary_tables(const trace::Trace& trace, const TraceSummary& summary) {
  std::vector<Table> tables(1);
  auto& categories = tables[0];
  categories = {.title = "events", .rows = {{"category", "count", "ms together"}}, .text_columns = {0}};
  for (const auto& row : summary.categories)
    categories.rows.push_back(
        {std::string(category_text(row.category)), base::with_commas(row.count), milliseconds(row.duration)});
  if (summary.longest.empty()) return tables;
  Table longest{.title = "the longest",
                .rows = {{"begin ms", "ms", "category", "name", "process", "thread"}},
                .text_columns = {2, 3, 4, 5}};
  for (const uint32_t i : summary.longest) {
    const auto& track = trace.tracks[trace.track[i]];
    longest.rows.push_back({milliseconds(trace.begin[i] - summary.begin), milliseconds(trace.duration[i]),
                            std::string(category_text(trace.category(i))), short_name(trace.name_text(i)),
                            base::printable_line(track.pid), base::printable_line(track.tid)});
  }
  tables.push_back(std::move(longest));
  return tables;
}

std::vector<Table> memory_tables(int64_t rank, const std::vector<MemoryTimeline>& timelines, size_t top) {
  const auto size = [](int64_t bytes) { return format("{:.1f}", static_cast<double>(bytes) / (1 << 20)); };
  std::vector<Table> tables;
  for (const auto& line : timelines) {
    const auto device = line.gpu ? format("GPU {}", line.device) : std::string("CPU");
    Table table{
        .title = format("rank {}, {}: {} MiB at the peak, {} ms after the first allocation, in {}", rank, device,
                        size(line.peak), milliseconds(line.peak_time), base::printable_line(line.peak_place)),
        .rows = {{"held by what was allocated in", "MiB", "%", "blocks"}},
        .text_columns = {0}};
    int64_t others = 0, others_blocks = 0;
    for (size_t i = 0; i < line.holders.size(); ++i) {
      const auto& holder = line.holders[i];
      if (i < top)
        table.rows.push_back({base::printable_line(holder.name), size(holder.bytes), percent(holder.bytes, line.peak),
                              holder.blocks > 0 ? base::with_commas(holder.blocks) : "-"});
      else
        others += holder.bytes, others_blocks += holder.blocks;
    }
    if (line.holders.size() > top)
      table.rows.push_back({format("{} others", line.holders.size() - top), size(others), percent(others, line.peak),
                            base::with_commas(others_blocks)});
    table.note =
        line.gpu
            ? format("before the recording {} MiB, after it {}; the allocator had taken {} at most; {} allocations",
                     size(line.held_before), size(line.held_after), size(line.peak_reserved),
                     base::with_commas(line.allocations))
            : format(
                  "of what was allocated since the recording began: a CPU's allocator does not know more; {} "
                  "allocations",
                  base::with_commas(line.allocations));
    tables.push_back(std::move(table));
  }
  return tables;
}

std::vector<Table> diff_tables(const TraceDiff& diff, size_t top) {
  const auto change = [](double before, double after) {
    return before > 0 ? format("{:+.1f}", 100 * (after - before) / before) : "new";
  };
  const auto ms = [](double microseconds) { return format("{:.3f}", microseconds / 1e3); };
  Table whole{.title = "a step and rank",
              .rows = {{"", "before ms", "after ms", "change %"},
                       {"from the first kernel to the last", ms(diff.span_before), ms(diff.span_after),
                        change(diff.span_before, diff.span_after)},
                       {"kernels together", ms(diff.before), ms(diff.after), change(diff.before, diff.after)}},
              .text_columns = {0},
              .note = pace_text(diff.pace)};
  const bool at_pace = diff.pace != 1;
  Table kernels{
      .title = at_pace ? "kernels, the largest change beyond that first" : "kernels, the largest change first",
      .rows = {{"kernel", "kind", "before ms", "after ms", "change ms", "change %", at_pace ? "beyond that %" : "",
                "times before", "times after", ""}},
      .text_columns = {0, 1, 9}};
  for (size_t i = 0; i < std::min(top, diff.kernels.size()); ++i) {
    const auto& row = diff.kernels[i];
    kernels.rows.push_back({short_name(row.name), std::string(kind_text(row.kind)), ms(row.before), ms(row.after),
                            format("{:+.3f}", row.change() / 1e3), change(row.before, row.after),
                            at_pace ? change(row.expected, row.after) : "", format("{:.1f}", row.count_before),
                            format("{:.1f}", row.count_after), row.regression ? "slower" : ""});
  }
  return {std::move(whole), std::move(kernels)};
}

}  // namespace hyperion::analysis

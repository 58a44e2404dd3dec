// An analysis as tables for people: rows of cells, the first the heading.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/analysis/analysis.h"
#include "hyperion/analysis/memory_timeline.h"
#include "hyperion/analysis/trace_diff.h"
#include "hyperion/analysis/trace_summary.h"

namespace hyperion::analysis {

struct Table {
  std::string title;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> text_columns = {};  // the others hold numbers
  std::string note = {};                  // below it
};

// At most `top` kernels and operators, over all ranks. Tables that would be empty are left out.
std::vector<Table> analysis_tables(const std::vector<RankAnalysis>& ranks, size_t top);
std::vector<Table> summary_tables(const trace::Trace& trace, const TraceSummary& summary);
std::vector<Table> memory_tables(int64_t rank, const std::vector<MemoryTimeline>& timelines, size_t top);
std::vector<Table> diff_tables(const TraceDiff& diff, size_t top);

// Without template arguments, parameters and what stands before, at most so many bytes, on one line and harmless to a
// terminal: "void at::native::gelu<float>(float*)" -> "at::native::gelu".
std::string short_name(std::string_view name, size_t most = 64);

}  // namespace hyperion::analysis

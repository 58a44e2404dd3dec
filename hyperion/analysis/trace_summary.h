// What is in a trace, before anything is made of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

struct SummaryOptions {
  size_t longest = 20;        // events that are listed
  std::string name = {};      // only events with this in their name; empty: all
  std::string category = {};  // only of this category, a word of category_text() or of the file; empty: all
};

struct CategoryRow {
  trace::Category category = trace::Category::other;
  int64_t count = 0;
  int64_t duration = 0;  // nanoseconds, all together
};

struct TraceSummary {
  int64_t matching = 0;                 // events that the options let through
  int64_t begin = 0, end = 0;           // of these, nanoseconds; 0 where none has a time
  std::vector<CategoryRow> categories;  // that have events, the most of them first
  std::vector<uint32_t> longest;        // their numbers, the longest first
};
// Throws ConfigError for a category that no event has.
TraceSummary summarize(const trace::Trace& trace, const SummaryOptions& options = {});
base::Json summary_json(const trace::Trace& trace, const TraceSummary& summary);

}  // namespace hyperion::analysis

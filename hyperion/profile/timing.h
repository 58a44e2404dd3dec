// Repeating a piece of work until its time is known: warm-up, repeats within a budget, median and spread.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace hyperion::profile {

// Of the repeats, in the unit of the samples: half lie below the median, a tenth below `low`, a tenth above `high`.
struct Spread {
  double median = 0, low = 0, high = 0;
  int64_t repeats = 0;
};

// Linear between neighbours; `fraction` in 0..1, at least one value.
double quantile(std::vector<double> values, double fraction);
Spread spread_of(const std::vector<double>& samples);

struct Budget {
  double seconds = 1;           // of measured work; warm-up is a quarter more
  double block_seconds = 0.01;  // short work is timed in blocks of calls that take about this long
  int64_t at_least = 3;         // repeats, however long they take, unless a single call exceeds `seconds`
};

// Runs the work `calls` times back to back and returns the seconds of all of them together.
using Block = std::function<double(int64_t calls)>;

// Seconds a call. Two calls come first that do not count (libraries load, pages and caches fill); a call over the
// budget has one such and is measured once. Throws Interrupted between blocks when a stop was asked for.
Spread repeat(const Block& block, const Budget& budget);

}  // namespace hyperion::profile

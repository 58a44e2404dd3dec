// `hyperion compare A B`: what changed between two results of one bench, and whether it is more than noise.
#pragma once
#include <string>
#include <vector>

#include "hyperion/bench/figures.h"

namespace hyperion::bench {

enum class Verdict { same, better, worse, regression, unknown, only_before, only_after };

struct ComparedFigure {
  Figure before, after;  // after is empty where only_before says so, and the other way round
  double ratio = 0;      // after / before
  // By how much the figure is worse, as a part; below 0 it is better.
  double worse = 0;
  // Of the ratio: half of each side's spread of blocks, added as independent errors.
  double noise = 0;
  bool noise_known = true;  // false: one side or both were timed once
  Verdict verdict = Verdict::same;
};

struct Comparison {
  std::vector<ComparedFigure> figures;
  std::vector<std::string> notes;  // other devices, cases of one side only
  int64_t regressions() const;
};

// A regression is worse by more than `fail_over` (a part: 0.03) and by more than the noise, or a case that failed in
// `after` alone. Of a figure that one side timed once nothing is known, unless `judge_once` takes it to have no noise.
// Throws ConfigError where the results are of different benches or share no figure, or where a figure is
// not in the same unit or sense.
Comparison compare(const Figures& before, const Figures& after, double fail_over, bool judge_once = false);

// "REGRESSION"; `before` and `after` are what the sides are called.
std::string verdict_text(Verdict verdict, const std::string& before = "A", const std::string& after = "B");

std::string comparison_table(const Comparison& comparison, double fail_over);
std::string comparison_json(const Comparison& comparison, double fail_over);

// "3%", "3" or "0.5 %": a part. Throws ConfigError.
double part_of(const std::string& percent);

// A result file, or a folder that holds just one. Throws ConfigError where it cannot be read.
Figures open_figures(const std::string& path);

}  // namespace hyperion::bench

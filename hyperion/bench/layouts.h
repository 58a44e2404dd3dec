// `hyperion bench scaling --layouts`: one recipe trained in several layouts of processes, each as a job of its own, and
// what their runs' records say: what a process holds, how fast it is, what it sends along which axis. `--from` reads
// the same from runs that are there.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/bench/scaling.h"
#include "hyperion/report/rank_records.h"
#include "hyperion/strategy/layout.h"

namespace hyperion::bench {

// "dp=2,pp=2,zero=1,accumulate=4"
struct LayoutCase {
  strategy::Layout layout;
  std::string shown;                       // its words but zero and batch
  std::string zero = {};                   // as it was written; empty: the recipe's
  int64_t batch = 0;                       // samples a data-parallel rank; 0: the recipe's batch
  std::vector<std::string> settings = {};  // "--parallel.zero=1", of its further words
};
// With ';' between them. Throws ConfigError that names the layout, the word and what may stand there.
std::vector<LayoutCase> parse_layouts(const std::string& text);

// What a rank did along one axis, the mean of ranks.
struct AxisTraffic {
  std::string axis;                     // dp, pp, tp; control: what all agree on
  std::map<std::string, double> bytes;  // sent a step, by kind of collective: "all-gather"
  double under_way = 0, waited = 0;     // parts of a step's time
};

struct LayoutRow {
  std::string layout, zero, optimize;  // empty: not known
  std::string run;                     // its name
  double batch = 0;                    // samples a data-parallel rank; 0: not known
  ScalingRow figures;                  // or why there are none
  std::optional<double> mfu, accuracy;
  double seconds = 0;                    // of training, with its validation and checkpoint
  std::optional<double> bubble, waited;  // of a pipeline, parts of a step: as planned, and as ranks waited for stages
  std::vector<AxisTraffic> traffic = {};
  bool has_ranks = false;  // the state's bytes and the traffic are known

  std::string name() const;  // "dp=4, zero 3, fused, batch 8"
};

struct LayoutResult {
  std::string what, device;
  std::vector<LayoutRow> rows;
};

// Throws ConfigError for options that cannot be meant. A job that fails becomes a row that says why.
LayoutResult run_layouts_bench(const ScalingOptions& options);
// A row for each run's folder; one whose records cannot be read says why.
LayoutResult read_layout_runs(base::FileSystem& files, const std::vector<base::Path>& runs);

LayoutRow read_layout_run(base::FileSystem& files, const base::Path& run);
// By axis, in the order dp, pp, tp and then others.
std::vector<AxisTraffic> traffic_by_axis(const std::vector<report::RankRecord>& ranks);

Outcome layouts_outcome(const LayoutResult& result);

}  // namespace hyperion::bench

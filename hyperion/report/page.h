// The page of one run: its figures, curves, answers, machine, checkpoints and settings, in one file that needs nothing
// else.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/config.h"
#include "hyperion/report/answers.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/predictions.h"

namespace hyperion::report {

struct ConfigRow {
  std::string section, key, value, origin;
  bool is_default = false;  // its value is: folded away
};
std::vector<ConfigRow> config_rows(const base::Settings& settings);

struct CheckpointRow {
  int64_t step = 0;
  std::string folder;
  uint64_t bytes = 0;
  std::string note;  // "best"; may be empty
};

// What the caller knows of a run. Each part may be empty; the page leaves out what it has no content for.
struct RunPage {
  std::string title;  // the run's name
  std::string lead;   // a sentence or two under it
  std::string state;  // what a reader must know first: still running, stopped, failed; empty: it is complete
  Metrics metrics;
  std::string unit = "token";  // what steps count: "token" or "image"
  int64_t total_steps = 0;     // asked for; 0: unknown
  std::optional<int64_t> parameters;
  std::string parameters_note;
  std::optional<double> seconds;  // wall time of training
  std::vector<Sample> samples;
  std::optional<PredictionRecord> predictions;
  std::string pipeline;  // the schedule of its stages, as SVG
  std::vector<ConfigRow> config;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<CheckpointRow> checkpoints;
};

std::string run_page(const RunPage& page);

}  // namespace hyperion::report

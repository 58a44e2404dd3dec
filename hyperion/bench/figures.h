// The figures of a result file: what `hyperion compare` reads, the same in the JSON of every bench.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct Figure {
  std::string name, unit;       // "gpt2-124m-b32 graph step", "ms"
  std::optional<double> value;  // none: the case failed
  double low = 0, high = 0;     // a tenth of the repeats lie below and above; both the value where there is one alone
  bool lower_is_better = true;
  bool timed_once = false;  // so that low and high say nothing of its noise
};

// "gpt2-124m-b32 graph", with the precision where it is not bf16.
std::string case_name(const std::string& workload, const std::string& mode, const std::string& precision);

Figure time_figure(std::string name, std::string unit, const profile::Spread& spread,
                   double scale);  // in the spread's x scale
Figure single_figure(std::string name, std::string unit, std::optional<double> value, bool lower_is_better);

struct Figures {
  std::string bench, device;  // which bench, on what
  std::vector<Figure> list;
  std::vector<std::string> settings = {};  // that were not the workloads' own: "train.batch=8"
  // Of files of before these are empty.
  std::map<std::string, std::string> machine = {};  // this_machine()'s
  std::string tree = {}, time = {};                 // which program measured (base::version_text()), and when (UTC)
};

// What figures depend on beside the device: {"cpu": "AMD EPYC 9654", "cores": "16", "driver": "580.65.06"}.
std::map<std::string, std::string> this_machine();

std::string joined_settings(const std::vector<std::string>& settings);  // with commas between them
// For the first line of a table: ", with a=1, b=2", or nothing.
std::string settings_note(const std::vector<std::string>& settings);

// The beginning of a bench's JSON: {"bench", "device_name", "time", "machine", "tree", "settings", "figures"}.
base::Json figures_json(const Figures& figures);
base::Json result_json(Figures figures);  // of what was measured here just now

// Throws CorruptError naming `place` where the text is not a result of a bench.
Figures read_figures(const std::string& text, const std::string& place);

}  // namespace hyperion::bench

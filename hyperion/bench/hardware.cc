#include "hyperion/bench/hardware.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/bench/cases.h"
#include "hyperion/bench/device.h"

namespace hyperion::bench {
namespace {

const std::vector<std::string> kDtypes = {"fp32", "tf32", "fp16", "bf16", "fp8"};
const std::vector<std::string> kKinds = {"matmul", "bandwidth", "transfer", "latency"};
const std::vector<std::string> kDevices = {"auto", "cpu", "cuda"};
constexpr int64_t kLargestSize = 1 << 20, kMostElements = int64_t{1} << 40;

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_word(const std::string& word, const std::vector<std::string>& allowed, const char* what) {
  if (contains(allowed, word)) return;
  const std::string near = base::nearest(word, allowed.data(), allowed.data() + allowed.size());
  throw base::ConfigError(base::format("unknown {} \"{}\"", what, word),
                          near.empty() ? base::format("one of {}", joined(allowed))
                                       : base::format("did you mean {}? (one of {})", near, joined(allowed)));
}

void check_numbers(const std::vector<int64_t>& numbers, int64_t most, const char* what) {
  if (numbers.empty())
    throw base::ConfigError(base::format("no {} given", what), "give one or more, such as 1024,2048");
  for (int64_t number : numbers) {
    if (number >= 1 && number <= most) continue;
    throw base::ConfigError(base::format("{} {} is out of range", what, number), base::format("1 to {}", most));
  }
}

void check_hardware(const HardwareOptions& options) {
  check_word(options.device, kDevices, "device");
  for (const std::string& dtype : options.dtypes) check_word(dtype, kDtypes, "dtype");
  for (const std::string& kind : options.only) check_word(kind, kKinds, "kind of measurement");
  check_numbers(options.sizes, kLargestSize, "matrix size");
  check_numbers(options.elements, kMostElements, "vector length");
  if (!(options.seconds_per_case > 0 && options.seconds_per_case <= 3600)) {
    throw base::ConfigError(base::format("{} seconds a case is out of range", options.seconds_per_case),
                            "more than 0, at most 3600");
  }
}

std::unique_ptr<TimedDevice> open_device(const HardwareOptions& options) {
  std::string why;
  if (options.device != "cpu") {
    if (auto gpu = gpu_device(why)) return gpu;
    if (options.device == "cuda") {
      throw base::PreflightError("--device cuda: " + why,
                                 "run `hyperion doctor` to see what is here, or measure the CPU with --device cpu");
    }
  }
  return cpu_device(options.quick ? 0.2 : 1);
}

// The options with everything left open filled in for this device.
HardwareOptions settle(HardwareOptions options, const TimedDevice& device) {
  const std::vector<std::string> here = device.dtypes();
  for (const std::string& dtype : options.dtypes) {
    if (contains(here, dtype)) continue;
    throw base::ConfigError(base::format("{} does not run on {}", dtype, device.name()),
                            base::format("here: {}", joined(here)));
  }
  if (options.dtypes.empty()) options.dtypes = here;
  if (options.only.empty()) options.only = kKinds;
  return options;
}

// Other programs take from what is measured; who reads the figures should know.
void note_load(HardwareResult& result) {
  double load = 0;
  if (::getloadavg(&load, 1) != 1 || load < 0.25 * result.threads) return;
  result.notes.push_back(base::format("load average {:.1f} at the start: other programs may have slowed this", load));
}

// One line, redrawn; where there is no terminal, a log line each time another kind begins.
class Progress {
 public:
  explicit Progress(int64_t cases) : cases_(cases) {}
  void kind(const std::string& name) {
    if (!line_.live()) base::log_info("bench hardware: " + name);
  }
  void begin(const std::string& what) {
    base::fault_point("bench.case");
    base::throw_if_stopped("benchmarking");
    ++begun_;
    line_.show(base::format("bench hardware  {}/{}  {}", begun_, cases_, what));
  }
  void end() { line_.clear(); }

 private:
  base::ProgressLine line_;
  int64_t cases_, begun_ = 0;
};

double in_unit(const HardwareRow& row, double seconds) {
  if (row.work == 0) return seconds * 1e6;
  return row.work / seconds / (row.kind == "matmul" ? 1e12 : 1e9);
}

}  // namespace

std::string HardwareRow::unit() const { return kind == "matmul" ? "TFLOP/s" : kind == "latency" ? "us" : "GB/s"; }

double HardwareRow::value() const { return in_unit(*this, seconds.median); }
double HardwareRow::low() const { return in_unit(*this, work == 0 ? seconds.low : seconds.high); }
double HardwareRow::high() const { return in_unit(*this, work == 0 ? seconds.high : seconds.low); }
double HardwareRow::percent() const { return peak > 0 ? 100 * value() / peak : 0; }

HardwareResult run_hardware_bench(const HardwareOptions& asked) {
  const base::OperationScope operation("bench.hardware");
  check_hardware(asked);
  const c10::InferenceMode no_gradients;
  const std::unique_ptr<TimedDevice> device = open_device(asked);
  const HardwareOptions options = settle(asked, *device);

  HardwareResult result;
  result.device = device->place().is_cpu() ? "cpu" : "cuda";
  result.device_name = device->name();
  result.torch_version = TORCH_VERSION;
  result.peak_source = device->peak_source();
  result.unix_seconds = base::real_clock().unix_seconds();
  result.threads = at::get_num_threads();
  result.quick = options.quick;
  note_load(result);

  Progress progress(count_cases(*device, options));
  const CaseContext context{*device, options, result, [&](const std::string& what) { progress.begin(what); }};
  const auto measure = [&](const char* kind, const char* name, void (*cases)(const CaseContext&)) {
    if (!contains(options.only, kind)) return;
    progress.kind(name);
    cases(context);
  };
  measure("matmul", "matrix products", measure_products);
  measure("bandwidth", "memory bandwidth", measure_bandwidth);
  if (device->has_transfers()) measure("transfer", "transfers", measure_transfers);
  measure("latency", "latency", measure_latencies);
  progress.end();
  return result;
}

}  // namespace hyperion::bench

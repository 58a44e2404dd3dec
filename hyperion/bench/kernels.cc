#include "hyperion/bench/kernels.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/bench/device.h"
#include "hyperion/device/device.h"
#include "hyperion/profile/memory.h"

namespace hyperion::bench {
namespace {

using base::format;

at::ScalarType type_of(const std::string& dtype) {
  return dtype == "bf16" ? at::kBFloat16 : dtype == "fp16" ? at::kHalf : at::kFloat;
}

void check_words(const std::vector<std::string>& words, const std::vector<std::string>& known, const char* what) {
  for (const auto& word : words) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    const auto near = base::nearest(word, known.data(), known.data() + known.size());
    std::string all;
    for (const auto& one : known) all += (all.empty() ? "" : ", ") + one;
    throw base::ConfigError(format("there is no {} \"{}\"", what, word),
                            near.empty() ? "there are: " + all : format("did you mean {}?", near));
  }
}

class KernelBench {
 public:
  KernelBench(double seconds, const TimedDevice& device, KernelResult& result)
      : device_(device), result_(result), budget_{.seconds = seconds} {}

  void measure(const OperationEntry& entry, const OperationPlace& place, const std::string& dtype) {
    const std::string what = format("{} {} {}", entry.name, place.size_name(), dtype);
    progress_.show(what);
    if (place.shards == 1) whole_.clear();
    profile::release_cached_memory(place.gpu());
    if (entry.held(place) > static_cast<double>(device_.free_bytes()) * 0.8) {
      result_.notes.push_back(what + " left out: there is not enough free memory");
      return;
    }
    if (place.shards > 1 && entry.cut(place) % place.shards != 0) {
      result_.notes.push_back(format("{} left out: {} cannot be cut evenly", what, entry.cut(place)));
      return;
    }
    const auto operation = entry.make(place);
    if (!operation.ours) return;
    KernelRow row;
    row.shards = place.shards;
    row.operation = entry.name, row.size = place.size_name(), row.dtype = dtype, row.shape = operation.shape;
    row.matrix = operation.matrix;
    if (operation.together) {
      row.pass = "both";
      row.cost = {operation.forward.bytes + operation.backward.bytes,
                  operation.forward.flops + operation.backward.flops};
      row.ours = time_ours(row, both(operation, operation.ours), what);
      row.aten = operation.aten ? time(both(operation, operation.aten), "ATen's " + what) : profile::Spread{};
      return finish(row, dtype);
    }
    row.pass = "forward", row.cost = operation.forward;
    row.ours = time_ours(row, forward(operation, operation.ours), what);
    row.aten = operation.aten ? time(forward(operation, operation.aten), "ATen's " + what) : profile::Spread{};
    finish(row, dtype);
    if (operation.backward.bytes == 0) return;
    row.pass = "backward", row.cost = operation.backward;
    row.ours = time_ours(row, backward(operation, operation.ours), what);
    row.aten = operation.aten ? time(backward(operation, operation.aten), "ATen's " + what) : profile::Spread{};
    finish(row, dtype);
  }

  void measure_mlp(const OperationPlace& place, const std::string& dtype, double dropout) {
    profile::release_cached_memory(place.gpu());
    const auto layer = dropout > 0 ? format("mlp dropout {}", dropout) : "mlp";
    const auto steps = mlp_steps(place, dropout);
    const size_t first = result_.mlp.size();
    double whole = 0;
    for (const auto& step : steps.list) {
      const auto what = format("{} {} {}: {}", layer, place.size_name(), dtype, step.name);
      progress_.show(what);
      result_.mlp.push_back(
          {layer, place.size_name(), dtype, steps.shape, step.pass, step.name, time(step.work, what)});
      whole += result_.mlp.back().ours.median;
    }
    for (size_t i = first; i < result_.mlp.size(); ++i) result_.mlp[i].share = result_.mlp[i].ours.median / whole;
  }

 private:
  static std::function<void()> forward(const Operation& operation, const OperationCall& call) {
    return [call, inputs = operation.inputs] {
      const at::NoGradGuard no_grad;
      call(inputs);
    };
  }

  // The graph is made once and kept; each call walks it.
  static std::function<void()> backward(const Operation& operation, const OperationCall& call) {
    const auto output = call(operation.inputs);
    const auto upstream = at::ones_like(output);
    return [output, upstream, trained = trained(operation)] {
      torch::autograd::grad({output}, trained, {upstream}, /*retain_graph=*/true);
    };
  }

  static std::function<void()> both(const Operation& operation, const OperationCall& call) {
    return [call, inputs = operation.inputs, trained = trained(operation)] {
      torch::autograd::grad({call(inputs)}, trained);
    };
  }

  static Inputs trained(const Operation& operation) {
    Inputs list;
    for (const auto& input : operation.inputs)
      if (input.requires_grad()) list.push_back(input);
    return list;
  }

  profile::Spread time_ours(KernelRow& row, const std::function<void()>& work, const std::string& what) {
    if (device_.place().is_cuda()) {
      work();  // what libraries keep for good is theirs, not the call's
      profile::release_cached_memory(true);
      profile::reset_peak(true);
      const auto before = profile::memory_use(true).allocated.value_or(0);
      work();
      row.extra = static_cast<double>(profile::memory_use(true).peak.value_or(before) - before);
    }
    return time(work, what);
  }

  profile::Spread time(std::function<void()> work, const std::string& what) {
    std::string why_not;
    const auto block = device_.replayed(std::move(work), why_not);
    if (!why_not.empty())
      result_.notes.push_back(format("{} is timed with its launches: it cannot be captured ({})", what, why_not));
    return profile::repeat(block, budget_);
  }

  // Seconds to move so many bytes, half of them read and half written.
  double copy_seconds(double bytes) {
    const auto count = static_cast<int64_t>(std::ceil(bytes / 2));
    if (const auto known = copies_.find(count); known != copies_.end()) return known->second;
    const auto options = at::TensorOptions().device(device_.place()).dtype(at::kByte);
    const auto from = at::ones({count}, options);
    auto to = at::ones({count}, options);
    const double seconds = time([from, to]() mutable { to.copy_(from); }, "a copy").median;
    result_.copy_gb_s = std::max(result_.copy_gb_s, bytes / seconds / 1e9);
    return copies_[count] = seconds;
  }

  double product_tflops(const std::string& dtype) {
    for (const auto& [name, tflops] : result_.product_tflops)
      if (name == dtype) return tflops;
    const int64_t n = device_.place().is_cuda() ? 8192 : 512;
    const auto options = at::TensorOptions().device(device_.place()).dtype(type_of(dtype));
    const auto a = at::randn({n, n}, options), b = at::randn({n, n}, options);
    auto out = at::empty({n, n}, options);
    const double seconds = time([a, b, out]() mutable { at::mm_out(out, a, b); }, "a product").median;
    const double tflops = 2 * std::pow(static_cast<double>(n), 3) / seconds / 1e12;
    result_.product_tflops.emplace_back(dtype, tflops);
    return tflops;
  }

  void finish(KernelRow& row, const std::string& dtype) {
    row.ceiling = copy_seconds(row.cost.bytes);
    row.bound_by_products = false;
    if (row.matrix) {
      const double seconds = row.cost.flops / product_tflops(dtype) / 1e12;
      row.bound_by_products = seconds > row.ceiling;
      row.ceiling = std::max(row.ceiling, seconds);
    }
    if (row.shards == 1)
      whole_[row.pass] = row.percent();
    else if (const auto whole = whole_.find(row.pass); whole != whole_.end())
      row.percent_of_uncut = 100 * row.percent() / whole->second;
    result_.rows.push_back(row);
  }

  const TimedDevice& device_;
  KernelResult& result_;
  profile::Budget budget_;
  std::map<int64_t, double> copies_;
  std::map<std::string, double> whole_;  // by pass: percents of the operation last measured uncut
  base::ProgressLine progress_;
};

}  // namespace

double KernelRow::rate() const {
  return bound_by_products ? cost.flops / ours.median / 1e12 : cost.bytes / ours.median / 1e9;
}
double KernelRow::percent() const { return 100 * ceiling / ours.median; }
double KernelRow::ratio() const { return aten.repeats > 0 ? aten.median / ours.median : 0; }
std::string KernelRow::name() const { return format("{} {} {} {}", operation, pass, size, dtype); }

void check_kernel_words(const KernelBenchOptions& options) {
  std::vector<std::string> names, shaped;
  std::map<std::string, std::vector<std::string>> cut;
  for (const auto& entry : kernel_operations()) {
    names.emplace_back(entry.name);
    if (entry.shaped) shaped.emplace_back(entry.name);
    if (entry.cut != nullptr) cut[entry.axis].emplace_back(entry.name);
  }
  check_words(options.only, names, "operation");
  if (!options.shapes.empty()) check_words(options.only, shaped, "operation on batch x length x width named");
  for (const auto& shape : options.shapes) activation_shape(shape);
  std::vector<std::string> can_be_cut;
  for (const auto& [axis, counts] : options.cuts) {
    can_be_cut.insert(can_be_cut.end(), cut[axis].begin(), cut[axis].end());
    for (const int64_t count : counts)
      if (count < 1)
        throw base::ConfigError(format("--{} {} is no number of processes", axis, count), "name some from 1 on");
  }
  if (!can_be_cut.empty()) check_words(options.only, can_be_cut, "operation that these axes cut named");
  check_words(options.sizes, {"small", "medium", "large"}, "size");
  check_words(options.dtypes, {"fp32", "bf16", "fp16"}, "dtype");
}

KernelResult run_kernel_bench(const KernelBenchOptions& options) {
  check_kernel_words(options);
  const bool gpu = device::open_device(options.device).is_cuda();
  std::string why;
  const auto device = gpu ? gpu_device(why) : cpu_device(0.01);
  if (device == nullptr) throw base::PreflightError("no GPU can be timed: " + why, "try --device cpu");
  const auto stream = device->own_stream();
  KernelResult result;
  result.device_name = device->name();
  KernelBench bench(options.seconds, *device, result);
  const std::vector<std::string> dtypes =
      options.dtypes.empty() ? std::vector<std::string>{gpu ? "bf16" : "fp32"} : options.dtypes;
  const auto wanted = [](const std::vector<std::string>& list, const std::string& word) {
    return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
  };
  std::vector<OperationPlace> places;
  for (const auto& shape : options.shapes)
    places.push_back({device->place(), at::kFloat, Size::small, activation_shape(shape)});
  for (const Size size : {Size::small, Size::medium, Size::large})
    if (options.shapes.empty() && wanted(options.sizes, name_of(size)))
      places.push_back({device->place(), at::kFloat, size});
  const auto at_each_place = [&](auto&& measure) {
    for (auto place : places)
      for (const auto& dtype : dtypes) place.type = type_of(dtype), measure(place, dtype);
  };
  const bool cut = !options.cuts.empty();
  const auto in_shards = [&](const OperationEntry& entry, OperationPlace place, const std::string& dtype) {
    bench.measure(entry, place, dtype);
    place.axis = entry.axis;
    if (!cut) return;
    for (const int64_t count : options.cuts.at(entry.axis))
      if (place.shards = count; count > 1) bench.measure(entry, place, dtype);
  };
  try {
    for (const auto& entry : kernel_operations()) {
      if (!wanted(options.only, entry.name) || (!options.shapes.empty() && !entry.shaped)) continue;
      if (cut && (entry.cut == nullptr || !options.cuts.contains(entry.axis))) continue;
      if (!base::is_terminal(STDERR_FILENO)) base::log_info(entry.name);
      at_each_place([&](const auto& place, const auto& dtype) { in_shards(entry, place, dtype); });
    }
    if (!cut && (wanted(options.only, "mlp_norm_up") || wanted(options.only, "mlp_gelu_down")))
      at_each_place([&](const auto& place, const auto& dtype) {
        for (const double dropout : {0.0, 0.1}) bench.measure_mlp(place, dtype, dropout);
      });
  } catch (const base::Interrupted& stop) {
    if (result.rows.empty()) throw;
    result.stopped = stop;
    std::erase_if(result.mlp, [](const MlpRow& row) { return row.share == 0; });  // their layer was not finished
    result.notes.push_back("stopped before the end: what was asked for besides was not measured");
  }
  return result;
}

}  // namespace hyperion::bench

#include "hyperion/bench/floor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/device.h"
#include "hyperion/device/device.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/kernels/gemm.h"
#include "hyperion/models/registry.h"
#include "hyperion/profile/memory.h"

namespace hyperion::bench {
namespace {

using base::format;
using Work = std::function<void()>;

at::ScalarType floor_type(const Workload& workload, train::Precision precision) {
  if (precision != train::Precision::fp8) return train::compute_type(precision);
  throw base::ConfigError(format("the floor of {} in fp8 is not known", workload.name),
                          "it is reckoned for bf16, fp16, tf32 and fp32");
}

class Measured {
 public:
  Measured(const TimedDevice& device, at::ScalarType type)
      : device_(device), options_(at::TensorOptions().device(device.place()).dtype(type)) {}

  // Milliseconds of the fastest way; a way that throws is none.
  double fastest(const std::vector<Work>& ways) const {
    double best = std::numeric_limits<double>::infinity();
    std::string why;
    for (const auto& way : ways) {
      try {
        std::string why_not;
        const auto block = device_.replayed(way, why_not);
        // After a rest, and shortly: under load a GPU's clock comes down, which is not the work's need.
        if (device_.place().is_cuda()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        best = std::min(best, 1e3 * profile::repeat(block, {.seconds = 0.02}).median);
      } catch (const base::Interrupted&) {
        throw;
      } catch (const std::exception& error) {
        why = error.what();
      }
    }
    if (!(best < std::numeric_limits<double>::infinity()))
      throw base::PreflightError("no way to time it: " + why.substr(0, why.find('\n')), "see hyperion doctor");
    return best;
  }

  double gb_s() const {
    const int64_t count = device_.place().is_cuda() ? int64_t{1} << 28 : int64_t{1} << 24;
    const auto from = at::randn({count}, options_.dtype(at::kFloat));
    auto to = at::empty_like(from);
    // By a kernel: a copy node of a graph is slower.
    const auto factor = at::scalar_tensor(1.5);
    return 8e-6 * static_cast<double>(count) / fastest({[=]() mutable { at::mul_out(to, from, factor); }});
  }

  // A map's three: forward, its input's gradient and its weight's.
  double map(int64_t rows, int64_t in, int64_t out) const {
    const auto x = at::randn({rows, in}, options_), weight = at::randn({out, in}, options_);
    const auto upstream = at::randn({rows, out}, options_);
    return gemm({x, weight, false, true}) + gemm({upstream, weight}) + gemm({upstream, x, true, false});
  }

  double attention(const BlockSizes& s) const {
    const auto heads = [&](int64_t count) {
      return at::randn({s.batch, s.length, count, s.head_width}, options_).transpose(1, 2);
    };
    const auto q = heads(s.heads), k = heads(s.key_heads), v = heads(s.key_heads), above = heads(s.heads);
    if (!device_.place().is_cuda() || options_.dtype() == at::kFloat) {
      const std::vector<at::Tensor> trained = {q.detach().requires_grad_(), k.detach().requires_grad_(),
                                               v.detach().requires_grad_()};
      return fastest({[=] {
        const at::AutoGradMode with_gradients(true);
        const auto out = at::scaled_dot_product_attention(trained[0], trained[1], trained[2], {}, 0, s.causal, {},
                                                          /*enable_gqa=*/s.heads != s.key_heads);
        torch::autograd::grad({out}, trained, {above});
      }});
    }
    const Work cudnn = [=] {
      const auto a = at::_scaled_dot_product_cudnn_attention(q, k, v, std::nullopt, true, 0, s.causal);
      at::_scaled_dot_product_cudnn_attention_backward(above, q, k, v, std::get<0>(a), std::get<1>(a), std::get<6>(a),
                                                       std::get<7>(a), {}, {}, {}, s.length, s.length, 0, s.causal);
    };
    const Work flash = [=] {
      const auto a = at::_scaled_dot_product_flash_attention(q, k, v, 0, s.causal);
      at::_scaled_dot_product_flash_attention_backward(above, q, k, v, std::get<0>(a), std::get<1>(a), {}, {}, s.length,
                                                       s.length, 0, s.causal, std::get<6>(a), std::get<7>(a));
    };
    return fastest({cudnn, flash});
  }

 private:
  // PyTorch's choice, or the best of all the library's algorithms.
  double gemm(const kernels::Gemm& p) const {
    const auto a = p.transpose_a ? p.a.t() : p.a, b = p.transpose_b ? p.b.t() : p.b;
    auto out = at::empty({a.size(0), b.size(1)}, options_);
    std::vector<Work> ways = {[=]() mutable { at::mm_out(out, a, b); }};
    if (device_.place().is_cuda()) ways.push_back([=] { kernels::gemm_into(out, p); });
    return fastest(ways);
  }

  const TimedDevice& device_;
  at::TensorOptions options_;
};

Floor floor_of(const Workload& workload, const train::RunConfig& config, const TimedDevice& device) {
  const auto sizes = block_sizes(workload, config);
  const auto type = floor_type(workload, config.train.precision);
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  device::allow_tf32(config.train.precision == train::Precision::tf32);
  const Measured measured(device, type);
  Floor floor{workload.name, base::word_of(config.train.precision), measured.gb_s()};
  const int64_t n = sizes.tokens(), d = sizes.width, mixed = sizes.heads * sizes.head_width;
  const auto layers = static_cast<double>(sizes.layers);
  floor.products =
      layers * (measured.map(n, d, mixed + 2 * sizes.key_heads * sizes.head_width) + measured.map(n, mixed, d) +
                measured.map(n, d, sizes.inner * (sizes.gated ? 2 : 1)) + measured.map(n, sizes.inner, d));
  if (sizes.vocabulary > 0) floor.products += measured.map(n, d, sizes.vocabulary);
  floor.attention = layers * measured.attention(sizes);
  const auto shape = models::config_shape(models::config_json(config.model), workload.name, config.train.length);
  floor.passing = passing_bytes(sizes, element) / floor.copy_gb_s / 1e6;
  floor.update = update_bytes(shape.parameters, element) / floor.copy_gb_s / 1e6;
  profile::release_cached_memory(device.place().is_cuda());
  return floor;
}

}  // namespace

BlockSizes block_sizes(const Workload& workload, const train::RunConfig& config) {
  const auto json = base::Json::parse(models::make_config(models::config_json(config.model), workload.name));
  const std::string type = json.value("model_type", "");
  BlockSizes s;
  s.batch = config.train.batch, s.length = config.train.length;
  const auto number = [&](const char* name) { return json.at(name).get<int64_t>(); };
  if (type == "gpt2") {
    s.layers = number("n_layer"), s.width = number("n_embd"), s.heads = s.key_heads = number("n_head");
    const auto inner = json.find("n_inner");
    s.inner = inner != json.end() && inner->is_number() ? inner->get<int64_t>() : 4 * s.width;
    s.vocabulary = number("vocab_size");
  } else if (type == "llama" || type == "qwen2" || type == "vit") {
    s.layers = number("num_hidden_layers"), s.width = number("hidden_size"), s.heads = number("num_attention_heads");
    s.inner = number("intermediate_size");
    s.key_heads = type == "vit" ? s.heads : number("num_key_value_heads");
    s.gated = s.causal = type != "vit";
    if (type == "vit") {
      const int64_t side = number("image_size") / number("patch_size");
      s.length = side * side + 1;
    } else {
      s.vocabulary = number("vocab_size");
    }
  } else {
    throw base::ConfigError(format("the floor of {} is not known: it is no transformer of equal blocks", workload.name),
                            "`hyperion bench train` traces any workload: --trace");
  }
  s.head_width = s.width / s.heads;
  return s;
}

double passing_bytes(const BlockSizes& s, int64_t element) {
  const double rows = static_cast<double>(s.tokens()), gated = s.gated ? 1 : 0;
  const double norms = 2 * 7 * rows * static_cast<double>(s.width);
  const double activation = ((2 + gated) + (2 + 3 * gated)) * rows * static_cast<double>(s.inner);
  const double loss = 3 * rows * static_cast<double>(s.vocabulary);
  return (static_cast<double>(s.layers) * (norms + activation) + loss) * static_cast<double>(element);
}

double update_bytes(int64_t parameters, int64_t element) {
  // Masters and two moments are read and written; the gradient is read twice; the copy to compute with is written.
  const int64_t of_each = 24 + 2 * element + (element < 4 ? element : 0);
  return static_cast<double>(parameters * of_each);
}

FloorResult run_floor_bench(TrainBenchOptions options) {
  options.peers = false, options.trace = true;
  auto changes = options.changes;
  changes.emplace_back("train.device", options.device);
  const auto workloads = find_workloads(options.workloads);
  for (const auto* workload : workloads) {  // what is wrong is said at once
    const auto config = config_of(*workload, changes);
    block_sizes(*workload, config);
    floor_type(*workload, config.train.precision);
  }
  FloorResult result;
  {
    std::string why;
    const auto device = device::open_device(options.device).is_cuda() ? gpu_device(why) : cpu_device(0.01);
    if (device == nullptr) throw base::PreflightError("no GPU can be timed: " + why, "try --device cpu");
    const auto stream = device->own_stream();
    const at::NoGradGuard no_grad;
    base::ProgressLine progress;
    device::set_tuning(true);
    for (const auto* workload : workloads) {
      progress.show(format("{}: products and attention alone", workload->name));
      result.floors.push_back(floor_of(*workload, config_of(*workload, changes), *device));
    }
    device::set_tuning(false);
  }
  result.steps = run_train_bench(options);
  return result;
}

}  // namespace hyperion::bench

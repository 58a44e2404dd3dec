#include "hyperion/bench/floor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
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
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/device.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/device/device.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/kernels/gemm.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"
#include "hyperion/profile/memory.h"
#include "hyperion/train/feed.h"

namespace hyperion::bench {
namespace {

using base::format;
using Work = std::function<void()>;
constexpr const char* kFloorAdapter = "floor";
constexpr size_t kAttendedBatches = 4;  // of documents

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

  // Of one product of each kind that a step has.
  ProductTimes products(int64_t rows, const FloorLinears& l) const {
    const auto x = at::randn({rows, l.in}, options_), weight = at::randn({l.out, l.in}, options_);
    const auto above = at::randn({rows, l.out}, options_);
    ProductTimes times{.forward = gemm({x, weight, false, true})};
    if (l.to_input > 0) times.to_input = gemm({above, weight});
    if (l.to_weight > 0) times.to_weight = gemm({above, x, true, false});
    return times;
  }

  // A forward and a backward; of documents the mean of some batches, by the pairs of tokens of them all.
  double attention(const BlockSizes& s) const {
    if (s.documents.empty()) return attention_of_rows(s);
    BlockSizes some = s;
    some.documents.resize(std::min(s.documents.size(), kAttendedBatches));
    double sum = 0;
    for (const auto& lengths : some.documents) sum += attention_within(s, lengths);
    return sum / static_cast<double>(some.documents.size()) * part_within_documents(s) / part_within_documents(some);
  }

 private:
  double attention_of_rows(const BlockSizes& s) const {
    const auto heads = [&](int64_t count) {
      return at::randn({s.batch, s.length, count, s.head_width}, options_).transpose(1, 2);
    };
    const auto q = heads(s.heads), k = heads(s.key_heads), v = heads(s.key_heads), above = heads(s.heads);
    if (!device_.place().is_cuda() || options_.dtype() == at::kFloat)
      return fastest({[=, trained = trained_of({q, k, v})] { attend(s, trained, above); }});
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

  // Documents of so many tokens behind each other, none of which sees another.
  double attention_within(const BlockSizes& s, const std::vector<int64_t>& lengths) const {
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const auto heads = [&](int64_t count) { return at::randn({tokens, count, s.head_width}, options_); };
    const auto q = heads(s.heads), k = heads(s.key_heads), v = heads(s.key_heads), above = heads(s.heads);
    if (blocks::attends_by_bounds(q, s.head_width)) {
      std::vector<int64_t> begins = {0};
      std::partial_sum(lengths.begin(), lengths.end(), std::back_inserter(begins));
      const auto bounds = at::tensor(begins, at::kInt).to(device_.place());
      const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
      return fastest({[=] {
        const auto a =
            at::_flash_attention_forward(q, k, v, bounds, bounds, longest, longest, 0, s.causal, /*debug mask*/ false);
        at::_flash_attention_backward(above, q, k, v, std::get<0>(a), std::get<1>(a), bounds, bounds, longest, longest,
                                      0, s.causal, std::get<2>(a), std::get<3>(a));
      }});
    }
    const auto cut = [&](const at::Tensor& all) {
      std::vector<at::Tensor> each;
      for (const auto& one : all.split_with_sizes(lengths)) each.push_back(one.transpose(0, 1).unsqueeze(0));
      return each;
    };
    std::vector<std::vector<at::Tensor>> trained;
    const auto of_q = cut(q), of_k = cut(k), of_v = cut(v), aboves = cut(above);
    for (size_t i = 0; i < lengths.size(); ++i) trained.push_back(trained_of({of_q[i], of_k[i], of_v[i]}));
    return fastest({[=] {
      for (size_t i = 0; i < trained.size(); ++i) attend(s, trained[i], aboves[i]);
    }});
  }

  static std::vector<at::Tensor> trained_of(const std::vector<at::Tensor>& heads) {
    std::vector<at::Tensor> trained;
    for (const auto& each : heads) trained.push_back(each.detach().requires_grad_());
    return trained;
  }

  // Queries, keys and values [batch, heads, length, width], in the library's own way.
  static void attend(const BlockSizes& s, const std::vector<at::Tensor>& trained, const at::Tensor& above) {
    const at::AutoGradMode with_gradients(true);
    const auto out = at::scaled_dot_product_attention(trained[0], trained[1], trained[2], {}, 0, s.causal, {},
                                                      /*enable_gqa=*/s.heads != s.key_heads);
    torch::autograd::grad({out}, trained, {above});
  }

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

// The linears of a block over one input, in the order of the pass, by how their paths end in all families; and the
// head.
const std::array<nn::LayerNames, 5>& joined_linears() {
  static const std::array<nn::LayerNames, 5> list = {{{.names = {"c_attn", "q_proj", "k_proj", "v_proj"}},
                                                      {.names = {"attn.c_proj", "o_proj"}},
                                                      {.names = {"c_fc", "gate_proj", "up_proj", "fc1"}},
                                                      {.names = {"mlp.c_proj", "down_proj", "fc2"}},
                                                      {.names = {"lm_head"}}}};
  return list;
}
constexpr int64_t kOfBlock = 4;

// Adds the adapters to linears that nothing trains any more.
void freeze_beside(const nn::Adapters& adapters, int64_t layers, std::vector<FloorLinears>& linears) {
  struct Beside {
    int64_t place;  // in the order of the pass
    FloorLinears& linears;
    int64_t rank;
  };
  std::vector<Beside> all;
  std::set<int64_t> places;
  for (const auto& [name, tensor] : adapters.parameters(kFloorAdapter)) {
    const auto end = name.rfind(".lora_B.");
    if (end == name.npos) continue;
    const auto path = name.substr(0, end);
    const auto found = std::find_if(joined_linears().begin(), joined_linears().end(),
                                    [&](const auto& names) { return nn::fits(names, path); });
    const int64_t which = found - joined_linears().begin();
    if (which >= std::ssize(linears)) continue;  // too small to count
    const int64_t block = which < kOfBlock ? std::stoll(path.substr(path.find_first_of("0123456789"))) : layers;
    auto& l = linears[static_cast<size_t>(which)];
    all.push_back({kOfBlock * block + which % kOfBlock, l, tensor.size(1)});
    l.lowered += places.insert(all.back().place).second ? 1 : 0;
    l.adapted_out += tensor.size(0), l.ranks += tensor.size(1), l.raised += tensor.numel();
  }
  const int64_t lowest = places.empty() ? kOfBlock * layers : *places.begin();
  for (const auto& [place, l, rank] : all) l.ranks_to_input += place > lowest ? rank : 0;
  for (int64_t which = 0; which < std::ssize(linears); ++which) {
    auto& l = linears[static_cast<size_t>(which)];
    l.to_weight = l.to_input = 0;
    const int64_t first = which < kOfBlock ? 0 : layers;
    for (int64_t block = first; block < first + l.forward; ++block)
      l.to_input += kOfBlock * block + which % kOfBlock > lowest ? 1 : 0;
  }
}

Floor floor_of(const Workload& workload, const train::RunConfig& config, const TimedDevice& device) {
  const auto sizes = block_sizes(workload, config);
  const auto type = floor_type(workload, config.train.precision);
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  device::allow_tf32(config.train.precision == train::Precision::tf32);
  const Measured measured(device, type);
  Floor floor{workload.name, base::word_of(config.train.precision), measured.gb_s()};
  const auto ms_of = [&](double bytes) { return bytes / floor.copy_gb_s / 1e6; };
  const auto work = floor_work(workload, config);
  for (const auto& linears : work.linears) {
    const auto times = measured.products(sizes.tokens(), linears);
    floor.products += products_ms(linears, times);
    floor.adapters += adapters_ms(linears, times, ms_of(adapter_bytes(linears, sizes.tokens(), element)));
    floor.wholes += ms_of(whole_bytes(linears, element));
  }
  floor.products += floor.adapters;
  floor.attention = static_cast<double>(sizes.layers) * measured.attention(sizes);
  for (const auto& lengths : sizes.documents)
    floor.documents += static_cast<double>(lengths.size()) / static_cast<double>(sizes.documents.size());
  floor.within = part_within_documents(sizes);
  floor.passing = ms_of(passing_bytes(sizes, element)) + floor.wholes;
  floor.update = ms_of(update_bytes(work.trained, element));
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
  if (s.vocabulary == 0 || !packs_documents(config)) return s;
  const auto shape = random_shape(config);
  for (int64_t i = 0; i < random_batches(config); ++i) {
    auto& lengths = s.documents.emplace_back();
    for (const auto& row : document_lengths(random_batch(config, shape, 0, i)))
      lengths.insert(lengths.end(), row.begin(), row.end());
  }
  return s;
}

double part_within_documents(const BlockSizes& s) {
  if (s.documents.empty()) return 1;
  double pairs = 0;
  for (const auto& lengths : s.documents)
    for (const int64_t length : lengths) pairs += static_cast<double>(length * length);
  return pairs / static_cast<double>(std::ssize(s.documents) * s.batch * s.length * s.length);
}

FloorWork floor_work(const Workload& workload, const train::RunConfig& config) {
  const auto s = block_sizes(workload, config);
  const int64_t mixed = s.heads * s.head_width, keys = s.key_heads * s.head_width;
  FloorWork work;
  for (const auto& [in, out] : {std::pair{s.width, mixed + 2 * keys}, std::pair{mixed, s.width},
                                std::pair{s.width, s.inner * (s.gated ? 2 : 1)}, std::pair{s.inner, s.width}})
    work.linears.push_back({in, out, s.layers, s.layers, s.layers, config.model.quantize == models::Quantize::nf4});
  if (s.vocabulary > 0) work.linears.push_back({s.width, s.vocabulary, 1, 1, 1});
  const auto text = models::config_json(config.model);
  if (config.lora.rank == 0) {
    work.trained = models::config_shape(text, workload.name, config.train.length).parameters;
    return work;
  }
  const nn::MetaScope only_names;
  const auto model = models::make_model(text, workload.name);
  model->adapters().add(kFloorAdapter, nn::config_of(config.lora), config.train.seed);
  work.trained = models::adapted_shape(*model, kFloorAdapter, config.train.length).trained;
  freeze_beside(model->adapters(), s.layers, work.linears);
  return work;
}

double products_ms(const FloorLinears& l, const ProductTimes& times) {
  return static_cast<double>(l.forward) * times.forward + static_cast<double>(l.to_input) * times.to_input +
         static_cast<double>(l.to_weight) * times.to_weight;
}

double adapters_ms(const FloorLinears& l, const ProductTimes& times, double passes_ms) {
  const auto in = static_cast<double>(l.in), out = static_cast<double>(l.out), raised = static_cast<double>(l.raised);
  // As parts of a product: the input into A twice, and of the output's gradient two products with the shape of B.
  const double passes = times.forward * (2 * static_cast<double>(l.ranks) / out + 2 * raised / (in * out));
  return std::max(passes_ms, passes) + times.forward * raised / (in * out) +
         times.to_input * static_cast<double>(l.ranks_to_input) / out;
}

double adapter_bytes(const FloorLinears& l, int64_t tokens, int64_t element) {
  return static_cast<double>(tokens * element) * static_cast<double>(2 * l.lowered * l.in + l.adapted_out);
}

double whole_bytes(const FloorLinears& l, int64_t element) {
  if (!l.quantized) return 0;
  constexpr double kPacked = 1 / 2. + 1 / 64. + 4 / (64. * 256);  // codes, magnitudes and their scales: kernels/nf4.h
  return static_cast<double>((l.forward + l.to_input) * l.in * l.out) * (kPacked + static_cast<double>(element));
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
    floor_work(*workload, config);
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

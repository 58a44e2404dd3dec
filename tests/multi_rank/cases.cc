#include "tests/multi_rank/cases.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/where.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/save.h"
#include "hyperion/models/adapt.h"
#include "hyperion/models/planned_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/experts.h"
#include "hyperion/nn/meta.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/strategy/plan_memory.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/staged_model.h"
#include "hyperion/train/stepper.h"
#include "tests/support/documents.h"

namespace hyperion::testing {
namespace {

using train::Batch;

constexpr int64_t kRows = 24;

train::RunConfig config_of(const Case& which, int64_t processes) {
  train::RunConfig config;
  const bool images = which.family == "vit" || which.family == "resnet";
  auto& model = config.model;
  if (images) {
    config.data.source = data::SourceKind::shapes;
    model.preset = which.family == "vit" ? "vit-tiny" : "resnet18-cifar";
  } else {
    model.preset = which.family.starts_with("moe") ? "mixtral-tiny"
                   : which.family == "qwen_moe"    ? "qwen-moe-tiny"
                   : which.family == "qwen2"       ? "qwen2.5-0.5b"
                   : which.family == "gpt2"        ? "gpt2-tiny"
                                                   : "llama-tiny";
    model.heads = which.number("heads", 2), model.width = which.number("width", 32), model.context = 32;
    if (which.family.starts_with("moe")) model.experts = 4, model.inner = which.number("inner", 32);
    model.capacity = std::stod(which.value("capacity", "0"));
    if (which.family == "qwen2") model.vocabulary = 256;
    if (which.family == "qwen_moe") model.key_value_heads = 2;
    if (which.family == "llama" || which.family == "lora" || which.family == "qlora" || which.family == "qwen2")
      model.inner = which.number("inner", 48), model.key_value_heads = which.number("keys", 1);
    if (which.family == "gpt2") model.dropout = 0.1;
    config.data.digits = 2;
    config.train.length = 16;
  }
  if (which.family == "vit")
    model.width = 32, model.heads = which.number("heads", 2), model.inner = 64, model.image = 16,
    model.dropout = which.number("drops", 0) != 0 ? 0.1 : 0;
  if (which.family == "resnet") model.image = 8;
  if (which.family != "resnet") model.layers = which.number("layers", 3);
  config.data.reset = which.number("packed", 0) != 0;
  config.train.seed = which.number("seed", 1);
  config.train.batch = which.number("batch", kRows);
  config.train.accumulate = which.number("accumulate", 1);
  config.train.precision = which.choice("precision", config.train.precision);
  config.fp8.measure = false;  // layers this small would all stay in bf16
  config.fp8.options.scale = which.choice("scale", config.fp8.options.scale);
  config.optim.lr = std::stod(which.value("lr", which.family == "resnet" ? "3e-2" : "3e-3"));
  config.train.length = std::min<int64_t>(32, which.number("length", config.train.length));
  config.optim.clip = which.number("clip", 1);
  config.optim.rule = which.choice("rule", config.optim.rule);
  config.memory.recompute = which.choice("recompute", config.memory.recompute);
  config.memory.offload_activations = which.number("offload", 0) != 0;
  config.memory.offload_optimizer = which.number("host_optimizer", 0) != 0;
  config.parallel.zero = which.number("zero", 0);
  config.parallel.layout = which.layout();
  config.parallel.schedule = which.choice("schedule", config.parallel.schedule);
  config.parallel.chunks = which.number("chunks", 0);
  config.parallel.sequence = which.number("sequence", 0) != 0;
  config.parallel.context = which.choice("context", config.parallel.context);
  config.parallel.bucket = 1;
  config.parallel.prefetch = which.number("prefetch", 1);
  config.parallel.wire = which.choice("wire", config.parallel.wire);
  config.parallel.zeropp = parallel::ZeroPlusPlus(which.value("zeropp", ""));
  config.parallel.node_size = which.number("node_size", 0);
  config.parallel.sync_batch_norm = which.number("sync", 0) != 0;
  config.parallel.same_bits = which.number("same_bits", 0) != 0;
  config.train.optimize = which.choice("optimize", config.train.optimize);
  if (config.parallel.same_bits) config.data.sums = 1000, config.data.validation = 0.1;  // 4 batches and 4 samples
  train::check_processes(config, processes);
  return config;
}

// A small ResNet: the preset's is too slow to train in a test.
std::string resnet_config() {
  return R"({"model_type": "resnet", "layer_type": "basic", "depths": [1, 2], "hidden_sizes": [8, 16],
             "hyperion_stem": "cifar", "image_size": 8, "num_labels": 10})";
}

// A user's module, of which one layer is never used, and one only where a share holds a row with a large first number.
struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(8, 32));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(32, 32));
  torch::nn::Linear sometimes = register_module("sometimes", torch::nn::Linear(32, 32));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 4));
  at::Tensor forward(const at::Tensor& x) {
    auto hidden = at::relu(in(x));
    const auto large = x.select(1, 0).gt(1.5);
    if (large.any().item<bool>())
      hidden = at::where(large.unsqueeze(1), hidden.add(at::relu(sometimes(hidden))), hidden);
    return out(hidden);
  }
};

std::unique_ptr<models::Model> own_module() {
  auto net = std::make_shared<Net>();
  const at::NoGradGuard no_grad;
  double at = 0;
  for (auto& parameter : net->parameters())
    for (int64_t i = 0; i < parameter.numel(); ++i) parameter.view(-1)[i] = 0.3 * std::sin(at += 1.7);
  return models::adapt(net, [net](const at::Tensor& x) { return net->forward(x); });
}

// What this process has in memory, at most since the last `forget_peak`.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes << 10;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// The same rows whoever asks: each process takes its own of them.
Batch own_batch(int64_t step, train::DataShard share) {
  const auto all = at::arange(kRows * 8, at::kFloat).add(static_cast<double>(step) * 31.7).mul(1.3).sin().mul(2);
  const auto inputs = all.view({kRows, 8}).slice(0, share.rank, kRows, share.count).contiguous();
  Batch batch{inputs, inputs.sum(1).mul(2).floor().remainder(4).to(at::kLong)};
  batch.counted.assign(static_cast<size_t>(inputs.size(0)), 1);
  return batch;
}

// Leaves each row another number of targets, some none.
void mask(Batch& batch) {
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const int64_t kept = batch.inputs[row].sum().item<int64_t>() % (batch.inputs.size(1) + 1);
    batch.targets[row].slice(0, kept).fill_(-100);
    batch.counted[static_cast<size_t>(row)] = kept;
  }
}

// Which experts each token went to, as a number that is the sum of all processes' own.
class Routes {
 public:
  Routes(models::Model& model, parallel::Processes& processes, const Case& which, at::Device device)
      : processes_(processes) {
    // Recomputed blocks route again, 16 bits may round a token to another expert, and of cp each sees some tokens.
    if (model.tree() == nullptr || processes.context() != nullptr || !device.is_cpu() ||
        which.settings.count("recompute") != 0 || which.settings.count("precision") != 0)
      return;
    model.tree()->visit([&](const std::string& path, nn::Module& module) {
      auto* experts = dynamic_cast<nn::RoutedExperts*>(&module);
      if (experts == nullptr) return;
      mixture_ = true;
      experts->set_dispatcher(std::make_shared<Recorder>(*this, base::hash_64(path), router_of(model, path)));
    });
  }

  // Every process asks. Empty: there are no experts. Throws where shards of one layer chose differently.
  std::string digest() {
    const auto all = processes_.control().gather_text(base::format("{} {}", mixture_ ? 1 : 0, sum_), "routes");
    uint64_t sum = 0;
    std::map<int64_t, std::string> of_first_shards;  // by what else they are
    for (int rank = 0; rank < processes_.size(); ++rank) {
      const strategy::Mesh mesh(processes_.mesh().layout(), rank);
      const auto& text = all[static_cast<size_t>(rank)];
      const auto [first, fresh] = of_first_shards.try_emplace(rank - mesh.index(strategy::Axis::tp), text);
      if (fresh) sum += std::stoull(text.substr(2));
      HYPERION_CHECK(first->second == text, "shards of a layer send their tokens to the same experts");
    }
    return all[0].starts_with("1") ? std::to_string(sum) : "";
  }

  // How much nearer a token was to the last expert it went to than to the first it did not, at least, as a part of the
  // router's logits; of whole layers, whose routers are not in 4 bits. Where it is about what rounding changes, another
  // order of sums changes routes.
  double margin() const { return margin_; }

 private:
  static at::Tensor router_of(models::Model& model, const std::string& experts) {
    const std::string name = experts.substr(0, experts.rfind('.') + 1) + "gate.weight";
    for (const auto& parameter : model.parameters())
      if (parameter.name == name) return parameter.tensor.detach();
    return {};  // it is in 4 bits
  }

  class Recorder final : public nn::TokenDispatcher {
   public:
    Recorder(Routes& owner, uint64_t layer, at::Tensor router)
        : owner_(owner), layer_(layer), router_(std::move(router)) {}
    nn::Dispatched dispatch(const at::Tensor& tokens, const nn::Routing& routing, int64_t experts,
                            const kernels::Capacity& capacity) override {
      // Micro-batches come in their order, whatever the schedule.
      const int64_t part = calls_++ * owner_.processes_.batch_count() + owner_.processes_.batch_index();
      const auto chosen = std::get<0>(routing.experts.sort(1)).contiguous();
      const std::string_view bytes(static_cast<const char*>(chosen.const_data_ptr()), chosen.nbytes());
      owner_.sum_ += base::hash_64(base::format("{} {} {}", layer_, part, base::hash_64(bytes)));
      if (owner_.processes_.size() == 1) see_margin(tokens.detach(), chosen.size(1));
      return here_.dispatch(tokens, routing, experts, capacity);
    }

   private:
    void see_margin(const at::Tensor& tokens, int64_t choices) {
      if (!router_.defined()) return;
      const auto logits = at::matmul(tokens.to(at::kDouble), router_.to(at::kDouble).t());
      if (choices >= logits.size(1)) return;
      const auto best = std::get<0>(logits.sort(1, /*descending=*/true));
      const auto gaps = best.select(1, choices - 1) - best.select(1, choices);
      owner_.margin_ = std::min(owner_.margin_, gaps.min().item<double>() / logits.abs().max().item<double>());
    }

    Routes& owner_;
    uint64_t layer_;
    at::Tensor router_;
    int64_t calls_ = 0;
    nn::LocalDispatcher here_;
  };

  parallel::Processes& processes_;
  bool mixture_ = false;
  uint64_t sum_ = 0;
  double margin_ = 1;
};

// Of the weights of all processes, each by its name; those that several have must be the same.
std::string digest_of(models::Model& model, comm::Group& group) {
  std::string own;
  for (const auto& parameter : model.parameters()) {
    if (!nn::is_materialized(parameter.tensor)) continue;  // another stage's
    const auto values = parameter.tensor.detach().cpu().contiguous();
    base::Hasher hasher;
    hasher.update({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
    own += base::format("{} {}\n", parameter.name, hasher.hex());
  }
  std::set<std::string> lines;
  for (const auto& text : group.gather_text(own, "digests")) {
    std::istringstream words(text);
    for (std::string line; std::getline(words, line);) lines.insert(line);
  }
  base::Hasher hasher;
  for (const auto& line : lines) hasher.update(line);
  return hasher.hex();
}

}  // namespace

std::string Case::value(const std::string& key, const std::string& otherwise) const {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

int64_t Case::number(const std::string& key, int64_t otherwise) const {
  return std::stoll(value(key, std::to_string(otherwise)));
}

std::string Case::layout() const {
  const auto text = value("layout", "");
  return text.empty() || text.find('=') != text.npos ? text : "dp=" + text;
}

Case read_case(const std::string& text) {
  Case which{text, {}, {}};
  std::istringstream words(text);
  words >> which.family;
  for (std::string word; words >> word;)
    which.settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return which;
}

// What strategy/plan.h says of this rank.
struct Planned {
  Planned(models::Model& given, const train::RunConfig& config, const parallel::Processes& processes)
      : model(models::planned_model(given, config.train.length)), shape(given.shape(config.train.length)) {
    step = {.layout = processes.mesh().layout(),
            .schedule = config.parallel.schedule,
            .chunks = config.parallel.stages(),
            .micro_batches = config.train.accumulate,
            .samples = config.train.batch / config.train.accumulate / processes.batch_count(),
            .length = model.image_tokens > 0 ? model.image_tokens : config.train.length,
            .zero = config.parallel.zero,
            .sequence_parallel = config.parallel.sequence,
            .context = config.parallel.context,
            .recompute = config.memory.recompute == nn::Recompute::blocks};
    plan = strategy::make_plan(model, step);
  }
  strategy::PlannedModel model;
  strategy::ModelShape shape;
  strategy::PlannedStep step;
  strategy::Plan plan;
};

// What it sends, in the words of the groups' own counters.
std::map<std::string, double> planned_bytes(const Planned& planned, int rank) {
  const auto& plan = planned.plan;
  std::map<std::string, double> bytes;
  for (const auto& instruction : plan.ranks[static_cast<size_t>(rank)]) {
    const bool sends = instruction.does == strategy::Does::send, collective = strategy::is_collective(instruction.does);
    const std::string axis = collective ? plan.groups[static_cast<size_t>(instruction.group)].name : "";
    const bool statistics = instruction.payload == strategy::Payload::statistics;
    if ((!sends && !collective) || (statistics && axis != "tp")) continue;
    std::string operation = base::word_of(instruction.does);
    std::replace(operation.begin(), operation.end(), '-', '_');
    if (instruction.does == strategy::Does::pass_on) operation = "exchange";
    const bool shared = axis == "tp" && instruction.payload == strategy::Payload::gradients;
    const std::string what = axis == "pp"                 ? "tied weights"
                             : shared                     ? "shared weights"
                             : axis == "tp" && statistics ? "logits"
                                                          : base::word_of(instruction.payload);
    const auto members = collective ? plan.groups[static_cast<size_t>(instruction.group)].ranks.size() : 0;
    const std::string group = axis == "cp"                                     ? "context"
                              : axis == "ep"                                   ? "experts"
                              : axis == "dp of experts"                        ? "expert " + what
                              : axis != "tp"                                   ? what
                              : members == static_cast<size_t>(plan.layout.tp) ? "layers"
                                                                               : base::format("{} shards", members);
    bytes[base::format("{} {} {}", group, operation, what)] += plan.bytes_sent(instruction);
  }
  return bytes;
}

// Weights, gradients and optimizer of fp32 AdamW against the plan's, of the rank that is farthest off: as a part.
double memory_off(const Planned& planned, const Trained& trained, parallel::Processes& processes) {
  const auto memory = strategy::memory_of(planned.plan, planned.step, planned.model, planned.shape, /*AdamW*/ 8,
                                          static_cast<size_t>(processes.rank()));
  double most = 0;
  const std::pair<int64_t, double> all[] = {
      {trained.weights, memory.weights}, {trained.gradients, memory.gradients}, {trained.optimizer, memory.optimizer}};
  for (const auto& [held, plan] : all) most = std::max(most, std::abs(static_cast<double>(held) / plan - 1));
  for (const auto& told : processes.control().gather_text(std::to_string(most), "memory"))
    most = std::max(most, std::stod(told));
  return most;
}

void save(const train::Stepper& stepper, parallel::Processes& processes, const std::string& folder, int64_t step) {
  checkpoint::Snapshot snapshot;
  snapshot.step = step;
  for (auto& item : stepper.state())
    if (stepper.saves(item)) snapshot.tensors.push_back(std::move(item));
  checkpoint::save_checkpoint(base::real_files(), folder, snapshot, 1, &processes.saves());
}

Trained train_case(const Case& which, parallel::Processes& processes, at::Device device) {
  const auto config = config_of(which, processes.size());
  const bool own = which.family == "own";
  const std::string json = which.family == "resnet" ? resnet_config() : own ? "" : models::config_json(config.model);
  forget_peak();
  const int64_t before = peak_bytes();
  models::Values values;
  std::unique_ptr<models::Model> model;
  if (which.number("outline", 0) != 0) {
    const nn::MetaScope only_names;
    model = models::make_model(json, "test");
    values = model->initial_values(config.train.seed);
  } else {
    model = own ? own_module() : models::make_model(json, "test");
    if (!own) model->initialise(config.train.seed);
  }
  if (which.family.ends_with("qlora")) model->quantize();
  if (which.family.ends_with("lora"))
    model->adapters().add("test", {.rank = 4, .dropout = which.number("drops", 0) != 0 ? 0.1 : 0}, config.train.seed);
  const train::DataShard share{processes.batch_index(), processes.batch_count()};
  data::Split split;
  std::optional<train::Feed> feed;
  if (!own) {
    split = config.data.reset ? split_of_documents(config.train.length, /*vocabulary=*/256)
                              : train::open_split(config, models::config_shape(json, "test", config.train.length));
    feed.emplace(split, config, data::Cursor{}, share);
  }
  Trained trained;
  std::optional<Planned> planned;
  if (!own) planned.emplace(*model, config, processes), trained.planned = planned_bytes(*planned, processes.rank());
  Routes routes(*model, processes, which, device);
  train::Stepper stepper(*model, config, device, nullptr, &processes, values);
  trained.made = peak_bytes() - before;
  for (const auto& parameter : model->parameters()) trained.model += static_cast<int64_t>(parameter.tensor.nbytes());
  const int64_t steps = which.number("steps", 20);
  if (const auto folder = which.value("load", ""); !folder.empty()) {
    const auto read = stepper.load(checkpoint::open_newest(base::real_files(), folder)).read;
    for (const auto& told : processes.control().gather_text(std::to_string(read), "bytes read"))
      trained.read += std::stoll(told);
  }
  if (const auto folder = which.value("resave", ""); !folder.empty()) save(stepper, processes, folder, 1);
  auto begin = std::chrono::steady_clock::now();
  auto traffic = processes.traffic();
  for (int64_t step = 1; step <= steps; ++step) {
    const auto timer = profile::make_step_timer(device.is_cuda());
    auto batch = own ? own_batch(step, share) : feed->next();
    if (which.number("masked", 0) != 0) mask(batch);
    const auto settle = [&] {  // what an update sends has arrived
      if (stepper.weights().block_hook() == nullptr) stepper.weights().begin_pass();
    };
    settle();
    const auto before = processes.traffic_by_caller();
    const auto result = stepper.run(batch, step, config.optim.lr, *timer);
    trained.losses.push_back(result.loss.item<double>());
    trained.norms.push_back(result.grad_norm.item<double>());
    if (step == 1) begin = std::chrono::steady_clock::now(), traffic = processes.traffic();
    if (step != steps) continue;
    if (result.expert_load.defined()) {
      const auto load = result.expert_load.to(at::kCPU, at::kLong);
      if (processes.mesh().index(strategy::Axis::tp) > 0) load.zero_();
      processes.control().all_reduce(load, "expert load").wait();
      trained.expert_load.assign(load.const_data_ptr<int64_t>(), load.const_data_ptr<int64_t>() + load.numel());
    }
    settle();
    for (const auto& [key, traffic] : processes.traffic_by_caller())
      if (const auto found = before.find(key); found != before.end())
        trained.sent[key] = traffic.bytes - found->second.bytes,
        trained.calls[key] = traffic.calls - found->second.calls;
    stepper.check_processes();
  }
  trained.routes = routes.digest();
  trained.route_margin = routes.margin();
  trained.recorded = stepper.records();
  if (which.number("measured", 0) != 0) trained.activations = stepper.measure(feed->next(), config.memory).activations;
  trained.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  trained.exposed = processes.traffic().exposed - traffic.exposed;
  trained.under_way = processes.traffic().seconds - traffic.seconds;
  if (const auto folder = which.value("save", ""); !folder.empty()) save(stepper, processes, folder, steps);
  if (config.parallel.same_bits) {
    const train::EvalRanks among{processes.control(), &stepper.weights(), share};
    const auto staged = !processes.share_model()
                            ? nullptr
                            : train::make_staged_model(*model, stepper.stages(), processes, train::LogitsGo::to_last);
    trained.validation = train::evaluate(staged ? *staged : *model, device, split, config, &among).loss;
  }
  for (const auto& item : stepper.state())
    if (item.name.starts_with("optimizer.")) {
      trained.optimizer += static_cast<int64_t>(item.tensor.nbytes());
    } else if (item.name == "fp8.history") {
      const auto largest = std::get<0>(item.tensor.max(0)).cpu().contiguous();
      trained.largest.assign(largest.const_data_ptr<float>(), largest.const_data_ptr<float>() + largest.numel());
    }
  const auto bytes = stepper.weights().bytes(config.train.accumulate);
  trained.weights = bytes.weights, trained.gradients = bytes.gradients;
  if (planned) trained.memory_off = memory_off(*planned, trained, processes);
  const parallel::TrainedWeights::Whole whole(stepper.weights());
  trained.digest = digest_of(*model, processes.control());
  return trained;
}

}  // namespace hyperion::testing

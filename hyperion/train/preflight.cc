#include "hyperion/train/preflight.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/blocks/cpu_precision.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/gpu.h"
#include "hyperion/host/memory.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"

namespace hyperion::train {
namespace {

using base::format;

std::string bytes(double count) { return base::bytes_text(static_cast<uint64_t>(std::min(count, 1e18))); }

// Which GPU is CUDA's first is not known here: the largest is the kindest guess. 0: unknown.
double gpu_memory() {
  uint64_t largest = 0;
  for (const auto& gpu : host::survey_gpus().gpus) largest = std::max(largest, gpu.memory_total.value_or(0));
  return static_cast<double>(largest);
}

void refuse_if_short(const MemoryNeed& need, double available, const char* where) {
  if (available <= 0 || need.all() <= available) return;
  throw base::PreflightError(
      format("training needs at least {} of memory, and {} has {} (weights {}, gradients {}, masters {}, moments {}, "
             "activations {})",
             bytes(need.all()), where, bytes(available), bytes(need.weights), bytes(need.gradients),
             bytes(need.masters), bytes(need.moments), bytes(need.activations)),
      need.activations > 0.5 * need.all()
          ? "use a smaller train.batch or train.length, or a larger train.accumulate"
          : "use a smaller model.width, model.layers, model.context or model.vocabulary");
}

// What the recipe leaves open and the model says, in the words of a recipe. That the whole image is made to fit,
// whatever its sides, no recipe says: the middle is seen then, as of other images.
std::string taken_from(const images::ImageProcessing& given, images::AugmentConfig& augment) {
  std::string said;
  const auto take = [&](const std::string& what) { said += (said.empty() ? "augment." : ", augment.") + what; };
  if (augment.normalise == "auto") {
    augment.normalise = images::normalisation_text(given.normalisation);
    take(format("normalise = \"{}\"", augment.normalise));
  }
  if (given.shorter == 0) return said;
  if (augment.filter == images::FilterChoice::automatic) {
    augment.filter = given.bicubic ? images::FilterChoice::bicubic : images::FilterChoice::bilinear;
    if (given.bicubic) take("filter = \"bicubic\"");
  }
  const double centre = static_cast<double>(given.side) / static_cast<double>(given.shorter);
  if (augment.centre == 0 && centre >= images::kLeastCentre) {
    augment.centre = centre;
    if (centre != images::kCentre) take(format("centre = {:.4g}", centre));
  }
  return said;
}

}  // namespace

MemoryNeed memory_need(const RunConfig& config, const strategy::ModelShape& shape, int64_t processes) {
  const auto layout = parallel::layout_of(config.parallel, processes);
  const auto shards = static_cast<double>(layout.dp_shard * layout.cp), stages = static_cast<double>(layout.pp);
  // Of a stage about, and of experts those of one process.
  const auto all = static_cast<double>(shape.parameters) / stages;
  const double here = all - static_cast<double>(shape.of_experts * (layout.ep - 1) / layout.ep) / stages;
  const auto held = [&](int64_t from_zero) { return config.parallel.zero >= from_zero ? all / shards : here; };
  const bool narrow = compute_type(config.train.precision) != at::kFloat;
  const double element = narrow ? 2 : 4;
  MemoryNeed need;
  need.weights = element * held(3);
  if (config.lora.rank > 0) {  // of the adapter itself nothing is certain before the model is made
    if (config.model.quantize == models::Quantize::nf4) need.weights = 0.5 * held(3);
    return need;
  }
  need.gradients = (narrow && config.train.accumulate > 1 ? 4 : element) * held(2);
  if (!config.memory.offload_optimizer && config.memory.budget.empty()) {
    need.masters = narrow ? 4 * held(1) : 0;
    need.moments = (config.optim.rule == optim::UpdateRule::adamw ? 8 : 4) * held(1);
  }
  const MemoryConfig& memory = config.memory;
  if (memory.recompute != nn::Recompute::none || memory.offload_activations || !memory.budget.empty() ||
      memory.on_oom == OnOom::adapt)
    return need;
  // Of one part of the batch; a fifth less than reckoned, so that nothing is refused that would fit.
  const int64_t parts = config.train.accumulate * layout.dp();
  const int64_t units = (config.train.batch + parts - 1) / parts * (shape.context > 0 ? config.train.length : 1);
  need.activations =
      0.8 / stages / static_cast<double>(layout.cp) * shape.activation_bytes(units, static_cast<int64_t>(element));
  return need;
}

std::string settle_normalisation(base::FileSystem& files, RunConfig& config) {
  images::AugmentConfig& augment = config.data.augment;
  const bool open = augment.normalise == "auto";
  if (config.model.from.empty() || (!open && augment.filter != images::FilterChoice::automatic && augment.centre > 0))
    return {};
  const base::Path path = interop::image_processor(files, config.model.from);
  if (path.empty()) return {};
  images::ImageProcessing given;
  try {
    given = images::parse_processor(base::read_description(files, path), path.string());
  } catch (const base::CorruptError& error) {  // images can be trained on all the same
    if (!open) return {};
    return format("{}: pixels are normalised as the data's are, not as model.from's were", error.what());
  }
  const std::string taken = taken_from(given, augment);
  return taken.empty() ? taken : format("{}, as {} says", taken, path.string());
}

std::string settle_image(base::FileSystem& files, RunConfig& config) {
  const std::string& from = config.model.from;
  if (from.empty() || config.model.image > 0) return {};
  const base::Path path = interop::image_processor(files, from);
  const std::string model = path.empty() ? std::string() : interop::read_model_config(files, from);
  if (path.empty() || !models::is_resnet(model, from)) return {};
  const int64_t otherwise = models::config_shape(model, from, config.train.length).image;
  try {
    const auto given = images::parse_processor(base::read_description(files, path), path.string());
    if (given.side == otherwise) return {};
    config.model.image = given.side;
    return format("model.image = {}, as {} says", given.side, path.string());
  } catch (const base::CorruptError& error) {  // images can be trained on all the same
    return format("{}: images are made {} pixels a side, where model.image says no other size", error.what(),
                  otherwise);
  }
}

std::string settle_precision(LoopConfig& train, int capability) {
  if (capability == 0)
    return train.precision == Precision::fp8
               ? "fp8 on a CPU is computed in bf16 from rounded values: it is slower, not faster"
           : train.precision == Precision::tf32 ? "tf32 on a CPU is fp32: only GPUs have its products"
                                                : "";
  const std::string gpu = format("this GPU, of compute capability {}.{},", capability / 10, capability % 10);
  if (train.precision == Precision::fp8 && capability < 89)
    throw base::PreflightError(format("train.precision is fp8, and {} has no products in 8 bits", gpu),
                               "use bf16 (from 8.0 on) or fp16; fp8 needs 8.9 or later");
  if (train.precision != Precision::bf16 || capability >= 80) return {};
  train.precision = Precision::fp16;
  return format("{} has no bf16: it trains in fp16, with a loss scale", gpu);
}

void check_memory(const RunConfig& config, const strategy::ModelShape& shape, c10::Device device, int64_t processes) {
  const MemoryNeed need = memory_need(config, shape, processes);
  const auto host = static_cast<double>(host::memory().usable());
  if (device.is_cpu()) return refuse_if_short(need, host, "this machine");
  refuse_if_short(need, gpu_memory(), "the GPU");
  MemoryNeed start;  // weights are initialised in fp32 on the CPU
  start.weights = (config.lora.rank > 0 ? 2 : 4) * static_cast<double>(shape.parameters);
  const auto layout = parallel::layout_of(config.parallel, processes);
  if (config.lora.rank == 0 && config.parallel.zero == 3)
    start.weights /= static_cast<double>(layout.pp * layout.dp_shard * layout.cp);
  else if (config.lora.rank == 0)
    start.weights = 4 * static_cast<double>(shape.parameters - shape.of_experts * (layout.ep - 1) / layout.ep) /
                    static_cast<double>(layout.pp);
  refuse_if_short(start, host, "this machine");
}

std::string slow_precision(const std::string& precision, bool has_products, double slowdown) {
  constexpr double kNoise = 1.5;
  if (!(slowdown > kNoise)) return {};
  const std::string why =
      has_products ? format("{} is slow on this CPU", precision) : format("this CPU has no {} products", precision);
  return format("{}: fp32 will be faster (a transformer block of this width takes about {:.0f} times as long)", why,
                slowdown);
}

std::string unused_dropout(const std::string& model) {
  const auto json = base::Json::parse(model, nullptr, /*allow_exceptions=*/false);  // a module of one's own has none
  for (const char* key : {"attn_pdrop", "attention_dropout"}) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (found == json.end() || !found->is_number() || found->get<double>() <= 0) continue;
    return format("{} = {} of the model is not applied: attention's weights are never held, so none are dropped", key,
                  found->get<double>());
  }
  return {};
}

std::string slow_precision_here(const RunConfig& config, const std::string& model, const strategy::ModelShape& shape,
                                c10::Device device) {
  const auto type = compute_type(config.train.precision);
  const auto json = base::Json::parse(model, nullptr, /*allow_exceptions=*/false);
  const bool has_attention = !json.is_object() || json.value("model_type", "") != "resnet";
  if (type == at::kFloat || !has_attention || !device.is_cpu()) return {};
  const std::string name = type == at::kHalf ? "fp16" : "bf16";
  return slow_precision(name, host::this_cpu().multiplies(name),
                        blocks::cpu_slowdown(type, shape.width, config.train.length));
}

}  // namespace hyperion::train

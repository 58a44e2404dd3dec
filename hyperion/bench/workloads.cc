#include "hyperion/bench/workloads.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"

namespace hyperion::bench {
namespace {

using base::format;

Changes both(Changes settings, const Changes& others) {
  settings.insert(settings.end(), others.begin(), others.end());
  return settings;
}

}  // namespace

const std::vector<Workload>& workloads() {
  using enum WorkloadGroup;
  constexpr auto kBf16 = train::Precision::bf16, kFp32 = train::Precision::fp32;
  const Changes lora = {{"lora.rank", "16"}, {"lora.targets", "all-linear"}};
  const Changes qlora = both(lora, {{"model.quantize", "nf4"}});
  // The path is never read: documents are drawn.
  const Changes packed = {
      {"data.source", "prepared"}, {"data.path", "drawn"}, {"data.packing", "whole"}, {"data.reset", "true"}};
  constexpr int64_t kGpt2 = 50257, kPadded = 50304;
  static const std::vector<Workload> list = {
      {"tinyllama-small", "8 layers of 512, 8 sequences of 128", "tinyllama-small", 8, 128},
      {"tinyllama-medium", "12 layers of 1024, 16 sequences of 512", "tinyllama-medium", 16, 512},
      {"gpt2-124m-b32", "GPT-2, 32 sequences of 1024", "gpt2-124m", 32, 1024, kPadded, kGpt2},
      {"gpt2-774m-b8", "GPT-2 Large, 8 sequences of 1024", "gpt2-774m", 8, 1024, kPadded, kGpt2},
      {"gpt2-774m-b32", "GPT-2 Large, 32 sequences of 1024", "gpt2-774m", 32, 1024, kPadded, kGpt2},
      {"qwen2.5-3b-b4", "Qwen2.5 3B, 4 sequences of 2048", "qwen2.5-3b", 4, 2048},
      {"resnet18-cifar-b256", "ResNet-18 with a 3x3 stem, 256 images of 32", "resnet18-cifar", 256, 0},
      {"resnet50-b32", "ResNet-50, 32 images of 224, 1000 classes", "resnet50", 32, 0},
      {"vit-b16-b64", "ViT-B/16, 64 images of 224, 100 classes", "vit-b16", 64, 0, 100},
      {"vit-h14-b16", "ViT-H/14, 16 images of 224, 100 classes", "vit-h14", 16, 0, 100},
      {"qwen2.5-3b-lora", "Qwen2.5 3B, LoRA of rank 16 beside all linears, 4 sequences of 2048", "qwen2.5-3b", 4, 2048,
       0, 0, 0, kBf16, finetune, lora},
      {"qwen2.5-3b-qlora", "the same over weights in 4 bits", "qwen2.5-3b", 4, 2048, 0, 0, 0, kBf16, finetune, qlora},
      {"llama3-8b-lora", "Llama 3 8B, LoRA of rank 16 beside all linears, 2 sequences of 4096", "llama3-8b", 2, 4096, 0,
       0, 0, kBf16, finetune, lora},
      {"qwen2.5-3b-packed", "Qwen2.5 3B, documents of some 300 tokens in 4 rows of 2048", "qwen2.5-3b", 4, 2048, 0, 0,
       0, kBf16, finetune, packed},
      {"qwen2.5-3b-lora-packed", "the same with LoRA of rank 16 beside all linears", "qwen2.5-3b", 4, 2048, 0, 0, 0,
       kBf16, finetune, both(lora, packed)},
      {"tiny-gpt2", "4 layers of 128, 2 sequences of 32", "gpt2-tiny", 2, 32, 0, 0, 0, kFp32, tiny},
      {"tiny-llama", "4 layers of 128, 2 sequences of 32", "llama-tiny", 2, 32, 0, 0, 0, kFp32, tiny},
      {"tiny-vit", "6 layers of 96, 2 images of 32", "vit-tiny", 2, 0, 0, 0, 0, kFp32, tiny},
      {"tiny-resnet", "ResNet-18 with a 3x3 stem, 2 images of 16", "resnet18-cifar", 2, 0, 0, 0, 16, kFp32, tiny},
      {"tiny-llama-lora", "4 layers of 128, LoRA of rank 16, 2 sequences of 32", "llama-tiny", 2, 32, 0, 0, 0, kFp32,
       tiny, lora},
      {"tiny-llama-qlora", "the same over weights in 4 bits", "llama-tiny", 2, 32, 0, 0, 0, kFp32, tiny, qlora},
      {"tiny-llama-packed", "4 layers of 128, documents of some 16 tokens in 2 rows of 64", "llama-tiny", 2, 64, 0, 0,
       0, kFp32, tiny, packed},
      {"tiny-llama-lora-packed", "the same with LoRA of rank 16", "llama-tiny", 2, 64, 0, 0, 0, kFp32, tiny,
       both(lora, packed)},
  };
  return list;
}

std::vector<const Workload*> find_workloads(const std::string& names) {
  std::vector<const Workload*> found;
  if (const auto group = base::from_word<WorkloadGroup>(names)) {
    for (const auto& workload : workloads())
      if (workload.group == *group) found.push_back(&workload);
    return found;
  }
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    begin = end + 1;
    const auto groups = words_of(WorkloadGroup{});
    std::vector<std::string> known(groups.begin(), groups.end());
    bool there = false;
    for (const auto& workload : workloads()) {
      known.push_back(workload.name);
      if (name != workload.name) continue;
      there = true;
      if (std::find(found.begin(), found.end(), &workload) == found.end()) found.push_back(&workload);
    }
    if (there) continue;
    const auto near = base::nearest(name, known.data(), known.data() + known.size());
    throw base::ConfigError(format("there is no workload \"{}\"", name),
                            near.empty() ? "`hyperion bench workloads` lists them"
                                         : format("did you mean {}? `hyperion bench workloads` lists them", near));
  }
  return found;
}

namespace {

std::string flag_of(const std::string& setting) {
  for (const char* own : {"train.optimize", "train.precision", "train.device"})
    if (setting == own) return "--" + setting.substr(setting.find('.') + 1);
  return "--set " + setting;
}

}  // namespace

train::RunConfig config_of(const Workload& workload, const Changes& changes) {
  train::RunConfig config;
  config.model.preset = workload.preset;
  (workload.length > 0 ? config.model.vocabulary : config.model.classes) = workload.vocabulary;
  config.model.image = workload.image;
  config.train.batch = workload.batch;
  if (workload.length > 0) config.train.length = workload.length;
  if (workload.length == 0) config.data.source = data::SourceKind::shapes;
  config.train.precision = workload.precision;
  config.optim.clip = 1;
  auto settings = train::bind(config);
  for (const auto& [name, value] : workload.settings) settings.set(name, value, workload.name);
  for (const auto& [name, value] : changes) settings.set(name, value, flag_of(name));
  train::check(config, train::AdaptedWeights::random);
  if (config.lora.rank > 0 && config.model.from.empty() &&
      models::is_resnet(models::config_json(config.model), workload.name))
    throw base::ConfigError(format("lora.rank = {} is set, and {} is a ResNet: LoRA's layers are linear ones, and a "
                                   "ResNet has only its head",
                                   config.lora.rank, workload.name),
                            "train it whole: leave lora.rank out");
  return config;
}

std::vector<std::string> settings_of(const Changes& changes) {
  std::vector<std::string> list;
  for (const auto& [name, value] : changes)
    if (flag_of(name).starts_with("--set")) list.push_back(format("{}={}", name, value));
  std::sort(list.begin(), list.end());
  return list;
}

std::string workload_json(const Workload& workload, const train::RunConfig& config) {
  const auto shape = random_shape(config);
  const bool tokens = shape.context > 0;
  base::Json json = {{"name", workload.name},
                     {"meaning", workload.meaning},
                     {"model", base::Json::parse(models::config_json(config.model))},
                     {"batch", config.train.batch},
                     {"length", tokens ? config.train.length : 0},
                     {"image", shape.image},
                     {"drawn", workload.drawn > 0 ? workload.drawn : shape.vocabulary},
                     {"precision", base::word_of(config.train.precision)},
                     {"parameters", shape.parameters},
                     {"trained", shape.trained}};
  if (config.lora.rank > 0)
    json["lora"] = {{"rank", config.lora.rank},
                    {"scale", nn::scale_of(nn::config_of(config.lora), "")},
                    {"quantize", base::word_of(config.model.quantize)}};
  if (tokens && packs_documents(config))
    for (int64_t i = 0; i < random_batches(config); ++i)
      json["documents"].push_back(document_lengths(random_batch(config, shape, 0, i)));
  return json.dump();
}

}  // namespace hyperion::bench

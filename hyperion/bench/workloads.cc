#include "hyperion/bench/workloads.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/models/registry.h"

namespace hyperion::bench {

const std::vector<Workload>& workloads() {
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
      {"tiny-gpt2", "4 layers of 128, 2 sequences of 32", "gpt2-tiny", 2, 32, 0, 0, 0, train::Precision::fp32, true},
      {"tiny-llama", "4 layers of 128, 2 sequences of 32", "llama-tiny", 2, 32, 0, 0, 0, train::Precision::fp32, true},
      {"tiny-vit", "6 layers of 96, 2 images of 32", "vit-tiny", 2, 0, 0, 0, 0, train::Precision::fp32, true},
      {"tiny-resnet", "ResNet-18 with a 3x3 stem, 2 images of 16", "resnet18-cifar", 2, 0, 0, 0, 16,
       train::Precision::fp32, true},
  };
  return list;
}

std::vector<const Workload*> find_workloads(const std::string& names) {
  std::vector<const Workload*> found;
  if (names == "all" || names == "tiny") {
    for (const auto& workload : workloads())
      if (workload.tiny == (names == "tiny")) found.push_back(&workload);
    return found;
  }
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    begin = end + 1;
    std::vector<std::string> known = {"all", "tiny"};
    bool there = false;
    for (const auto& workload : workloads()) {
      known.push_back(workload.name);
      if (name != workload.name) continue;
      there = true;
      if (std::find(found.begin(), found.end(), &workload) == found.end()) found.push_back(&workload);
    }
    if (there) continue;
    const auto near = base::nearest(name, known.data(), known.data() + known.size());
    throw base::ConfigError(base::format("there is no workload \"{}\"", name),
                            near.empty()
                                ? "`hyperion bench workloads` lists them"
                                : base::format("did you mean {}? `hyperion bench workloads` lists them", near));
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
  for (const auto& [name, value] : changes) settings.set(name, value, flag_of(name));
  train::check(config, train::AdaptedWeights::random);
  return config;
}

std::vector<std::string> settings_of(const Changes& changes) {
  std::vector<std::string> list;
  for (const auto& [name, value] : changes)
    if (flag_of(name).starts_with("--set")) list.push_back(name + "=" + value);
  std::sort(list.begin(), list.end());
  return list;
}

std::string workload_json(const Workload& workload, const train::RunConfig& config) {
  const auto text = models::config_json(config.model);
  const auto shape = models::config_shape(text, workload.name, config.train.length);
  const bool tokens = shape.context > 0;
  return base::Json{{"name", workload.name},
                    {"meaning", workload.meaning},
                    {"model", base::Json::parse(text)},
                    {"batch", config.train.batch},
                    {"length", tokens ? config.train.length : 0},
                    {"image", shape.image},
                    {"drawn", workload.drawn > 0 ? workload.drawn : shape.vocabulary},
                    {"precision", base::word_of(config.train.precision)},
                    {"parameters", shape.parameters}}
      .dump();
}

}  // namespace hyperion::bench

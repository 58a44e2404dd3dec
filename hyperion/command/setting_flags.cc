#include "hyperion/command/setting_flags.h"

#include <CLI/CLI.hpp>
#include <map>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/command/usage.h"
#include "hyperion/train/config.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

// --steps 5 --train.steps=6
void refuse_contradictions(const std::vector<Override>& overrides) {
  std::map<std::string, const Override*> given;
  for (const auto& one : overrides) {
    const auto& first = *given.emplace(one.name, &one).first->second;
    if (first.value != one.value)
      throw ConfigError(
          format("{} is given twice: {}={} and {}={}", one.name, first.flag, first.value, one.flag, one.value),
          "leave one of them out");
  }
}

}  // namespace

std::string settings_help() {
  train::RunConfig config;
  return train::bind(config).help();
}

std::vector<std::string> setting_names() {
  train::RunConfig config;
  std::vector<std::string> names;
  const auto settings = train::bind(config);
  for (const auto& setting : settings.all()) names.push_back(setting.name());
  return names;
}

void add_short_flags(CLI::App* command, SettingFlags& flags) {
  command->add_option("--steps", flags.steps, "same as --train.steps");
  command->add_option("--seed", flags.seed, "same as --train.seed");
  command->add_option("--device", flags.device, "cpu, cuda or auto");
  command->add_option("--precision", flags.precision, "fp32, tf32, bf16, fp16 or fp8");
  command->add_option("--optimize", flags.optimize, "reference, fused, graph or max");
  command->add_option("--profile", flags.profile,
                      "same as --train.profile: 1+3@100 traces three steps, after one of warm-up from step 100 on");
  command->add_option("--memory-budget", flags.memory_budget, "same as --memory.budget: 16GiB");
  command->add_option("--on-oom", flags.on_oom, "same as --memory.on_oom: fail or adapt");
  command->add_option("--parallel", flags.parallel, "same as --parallel.layout: dp=4, for 4 processes");
  command->add_option("--zero", flags.zero, "same as --parallel.zero: 0, 1, 2 or 3");
  command->add_option("--zeropp", flags.zeropp, "same as --parallel.zeropp: weights,secondary,grads");
  command
      ->add_option(
          "--deterministic", flags.deterministic,
          "true: repeatable on a GPU too; layout: also on other layouts of dp (a power of two) and pp; or false")
      ->check(one_of({"true", "false", "layout"}));
  command->allow_extras();
}

std::vector<Override> overrides_of(CLI::App* command, const SettingFlags& flags) {
  std::vector<Override> overrides;
  const std::pair<const char*, const std::string*> shorts[] = {
      {"steps", &flags.steps},         {"seed", &flags.seed},         {"device", &flags.device},
      {"precision", &flags.precision}, {"optimize", &flags.optimize}, {"profile", &flags.profile}};
  for (const auto& [name, value] : shorts)
    if (!value->empty()) overrides.push_back({format("train.{}", name), *value, format("--{}", name)});
  if (!flags.memory_budget.empty()) overrides.push_back({"memory.budget", flags.memory_budget, "--memory-budget"});
  if (!flags.on_oom.empty()) overrides.push_back({"memory.on_oom", flags.on_oom, "--on-oom"});
  if (!flags.parallel.empty()) overrides.push_back({"parallel.layout", flags.parallel, "--parallel"});
  if (!flags.zero.empty()) overrides.push_back({"parallel.zero", flags.zero, "--zero"});
  if (!flags.zeropp.empty()) overrides.push_back({"parallel.zeropp", flags.zeropp, "--zeropp"});
  if (!flags.deterministic.empty()) {
    const bool layout = flags.deterministic == "layout";
    overrides.push_back({"train.deterministic", layout ? "true" : flags.deterministic, "--deterministic"});
    if (layout) overrides.push_back({"parallel.same_bits", "true", "--deterministic"});
  }
  if (!flags.output.empty()) overrides.push_back({"prepare.output", flags.output, "--output"});
  if (!flags.on_bad.empty()) overrides.push_back({"prepare.on_bad", flags.on_bad, "--on-bad"});
  const auto rest = command->remaining();
  for (size_t i = 0; i < rest.size(); ++i) {
    const std::string& word = rest[i];
    const size_t equals = word.find('='), dot = word.find('.');
    if (!word.starts_with("--") || dot == word.npos || dot > equals) {
      throw ConfigError(format("unexpected argument {}", word), argument_hint(*command, word, setting_names()));
    }
    const std::string name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
    if (equals == word.npos && i + 1 == rest.size())
      throw ConfigError(format("{} needs a value", word), format("write {}=VALUE", word));
    overrides.push_back({name, equals == word.npos ? rest[++i] : word.substr(equals + 1), "--" + name});
  }
  refuse_contradictions(overrides);
  return overrides;
}

}  // namespace hyperion::cli

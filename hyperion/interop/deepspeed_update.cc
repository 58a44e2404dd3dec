// "optimizer", "scheduler" and "gradient_clipping" of DeepSpeed's JSON. What they leave out is what DeepSpeed takes
// then, not our own default.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/interop/deepspeed_keys.h"

namespace hyperion::interop {

using base::format;

namespace {

constexpr double kTheirRate = 1e-3;
constexpr int64_t kTheirWarmup = 1000, kOwnSteps = 500, kMostSteps = 1'000'000'000;

void set_real(DeepSpeedKeys& keys, const char* key, const char* setting, double theirs, const std::string& more = {}) {
  if (keys.is_auto(key)) return static_cast<void>(keys.number(key));
  const bool there = keys.has(key);
  const auto value = keys.number(key);
  if (there && !value) return;
  keys.set(key, setting, format("{}", value.value_or(theirs)),
           there ? more : format("DeepSpeed's default{}{}", more.empty() ? "" : "; ", more));
}

void read_adam(DeepSpeedKeys& params, bool decoupled) {
  const bool plain = !params.flag("adam_w_mode").value_or(true) && !decoupled;
  const bool torch = params.flag("torch_adam").value_or(false);
  const auto decay = params.number("weight_decay");
  if (plain && decay && *decay != 0)
    params.refuse("adam_w_mode", "false adds the decay to the gradients, and optim.weight_decay is decoupled");
  set_real(params, "lr", "optim.lr", kTheirRate);
  if (!params.is_auto("betas")) {
    const bool there = params.has("betas");
    if (const auto betas = params.pair("betas"); betas || !there) {
      const auto [first, second] = betas.value_or(std::pair(0.9, 0.999));
      const char* const more = there ? "" : "DeepSpeed's default";
      params.set("betas", "optim.beta1", format("{}", first), more);
      params.set("betas", "optim.beta2", format("{}", second), more);
    }
  }
  params.pair("betas");
  set_real(params, "eps", "optim.epsilon", 1e-8);
  set_real(params, "weight_decay", "optim.weight_decay", torch && decoupled ? 0.01 : 0,
           "of matrices alone, not of norms, biases and embeddings");
  if (!params.flag("bias_correction").value_or(true))
    params.refuse("bias_correction", "false: AdamW corrects its moments here");
  params.refuse_used({{"amsgrad", "AdamW is here without it"}});
  params.note_all({{"fused", "train.optimize chooses how the update is computed"},
                   {"foreach", "train.optimize chooses how the update is computed"},
                   {"fp32_optimizer_states", "moments are always fp32"}});
}

void read_sgd(DeepSpeedKeys& params) {
  set_real(params, "lr", "optim.lr", kTheirRate);
  set_real(params, "momentum", "optim.momentum", 0);
  set_real(params, "weight_decay", "optim.weight_decay", 0,
           "decoupled here: to decay as torch's SGD does, divide it by 1 - momentum");
  params.refuse_used({{"nesterov", "SGD is here without it"}, {"dampening", "SGD is here without it"}});
}

// Its learning rate, where the file has one.
std::optional<double> read_optimizer(DeepSpeedKeys& top) {
  auto optimizer = top.object("optimizer");
  if (!optimizer) return {};
  const auto type = optimizer->word("type");
  auto params = optimizer->object_or_empty("params");
  optimizer->note_all({{"legacy_fusion", "train.optimize chooses how the update is computed"}});
  optimizer->refuse_unread();
  if (!type) {
    if (!optimizer->has("type")) optimizer->refuse("type", "is missing");
    return {};
  }
  std::string name = *type;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name != "adam" && name != "adamw" && name != "sgd") {
    optimizer->refuse("type", "must be Adam, AdamW or SGD: no other rule is here");
    return {};
  }
  optimizer->set("type", "optim.rule", name == "sgd" ? "sgd" : "adamw",
                 name == "adam" ? "DeepSpeed's Adam decouples its decay too" : "");
  name == "sgd" ? read_sgd(params) : read_adam(params, name == "adamw");
  params.refuse_unread();
  if (params.is_auto("lr")) return {};
  return params.has("lr") ? params.number("lr") : kTheirRate;
}

bool warms_up_linearly(DeepSpeedKeys& params) {
  const std::string type = params.word("warmup_type").value_or("log");
  if (type != "log" && type != "linear") params.refuse("warmup_type", "must be log or linear");
  return type == "linear";
}

void set_warmup(DeepSpeedKeys& params, int64_t steps) {
  const bool there = params.has("warmup_num_steps");
  const bool linear = warms_up_linearly(params);
  params.set("warmup_num_steps", "optim.warmup", format("{}", steps),
             format("{}{}", there ? "" : "DeepSpeed's default; ", linear ? "" : "linear here, by the logarithm there"));
}

void set_peak(DeepSpeedKeys& params, const std::optional<double>& rate) {
  if (params.is_auto("warmup_max_lr")) return static_cast<void>(params.number("warmup_max_lr"));
  const auto peak = params.number("warmup_max_lr");
  if (params.has("warmup_max_lr") && !peak) return;
  const double value = peak.value_or(kTheirRate);
  const std::string beside = rate && *rate != value ? format("it wins over optimizer.params.lr = {}", *rate) : "";
  params.set("warmup_max_lr", "optim.lr", format("{}", value),
             format("{}{}",
                    peak             ? ""
                    : beside.empty() ? "DeepSpeed's default"
                                     : "DeepSpeed's default; ",
                    beside));
}

void read_schedule(DeepSpeedKeys& params, const std::string& type, const std::optional<double>& rate) {
  const bool decays = type != "WarmupLR";
  const int64_t total = decays ? params.whole("total_num_steps", 1, kMostSteps).value_or(0) : 0;  // 0: not said
  if (decays && !params.has("total_num_steps")) params.refuse("total_num_steps", "is missing");
  const int64_t warmup = params.whole("warmup_num_steps", 0, kMostSteps).value_or(kTheirWarmup);
  if (total > 0 && warmup > total)
    params.refuse("warmup_num_steps", format("{} is more than total_num_steps = {}", warmup, total));
  if (params.is_auto("warmup_num_steps"))
    warms_up_linearly(params);
  else
    set_warmup(params, warmup);
  if (type == "WarmupCosineLR") {
    params.note_all({{"warmup_min_ratio", "the learning rate rises from 0"}});
    set_real(params, "cos_min_ratio", "optim.final_lr_ratio", 1e-4);
  } else {
    params.note_all({{"warmup_min_lr", "the learning rate rises from 0"}});
    set_peak(params, rate);
  }
  params.note_all({{"last_batch_iteration", "a resumed run knows its step"}});
  if (total > 0)
    params.set("total_num_steps", "train.steps", format("{}", total));
  else if (!params.is_auto("warmup_num_steps") && warmup > kOwnSteps)
    params.set("warmup_num_steps", "train.steps", format("{}", std::min(kMostSteps, 10 * warmup)),
               "yours to choose; the file does not say how long to train");
  params.refuse_unread();
}

void read_scheduler(DeepSpeedKeys& top, const std::optional<double>& rate) {
  auto scheduler = top.object("scheduler");
  if (!scheduler) {
    if (!rate || top.has("scheduler")) return;
    top.set("scheduler", "optim.schedule", "constant", "there is none");
    top.set("scheduler", "optim.warmup", "0", "there is none");
    return;
  }
  const auto type = scheduler->word("type");
  auto params = scheduler->object_or_empty("params");
  scheduler->refuse_unread();
  if (!type) {
    if (!scheduler->has("type")) scheduler->refuse("type", "is missing");
    return;
  }
  if (*type != "WarmupLR" && *type != "WarmupDecayLR" && *type != "WarmupCosineLR")
    return scheduler->refuse("type", "must be WarmupLR, WarmupDecayLR or WarmupCosineLR: no other schedule is here");
  scheduler->set("type", "optim.schedule",
                 *type == "WarmupLR"        ? "constant"
                 : *type == "WarmupDecayLR" ? "linear"
                                            : "cosine");
  if (*type == "WarmupDecayLR") scheduler->set("type", "optim.final_lr_ratio", "0", "it falls to 0");
  read_schedule(params, *type, rate);
}

}  // namespace

void read_deepspeed_update(DeepSpeedKeys& top) {
  const auto rate = read_optimizer(top);
  read_scheduler(top, rate);
  set_real(top, "gradient_clipping", "optim.clip", 0);
}

}  // namespace hyperion::interop

#include "hyperion/interop/deepspeed.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/interop/deepspeed_keys.h"

namespace hyperion::interop {

using base::format;
using base::Json;

namespace {

constexpr int64_t kMostSamples = 1 << 20;  // of train.batch
constexpr const char* kAllSamples = "train_batch_size";
constexpr const char* kPartSamples = "train_micro_batch_size_per_gpu";
constexpr const char* kParts = "gradient_accumulation_steps";

const DeepSpeedNotes kWithoutCounterpart = {
    {"wall_clock_breakdown", "metrics and report always hold the times of a step's parts"},
    {"flops_profiler", "every run counts its operations; metrics and report hold them and the MFU"},
    {"comms_logger", "metrics hold the bytes sent; `hyperion bench comm` measures collectives"},
    {"tensorboard", "every run writes event files into its folder tb (train.report_to)"},
    {"csv_monitor", "every run writes metrics.rank-N.csv"},
    {"wandb", "--train.report_to=wandb writes what `wandb sync` sends"},
    {"comet", "every run writes metrics.jsonl, metrics.rank-N.csv and report.html"},
    {"dump_state", "`hyperion config show --origin` tells every setting"},
    {"prescale_gradients", "gradients are divided by the tokens or samples that all processes counted"},
    {"gradient_predivide_factor", "gradients are divided by the tokens or samples that all processes counted"},
    {"zero_allow_untested_optimizer", "each rule of optim.rule works with each parallel.zero"},
    {"zero_force_ds_cpu_optimizer", "there is one optimizer, on the GPU and on the host"},
    {"checkpoint", "checkpoints are whole, and can be read by any number of processes"},
    {"use_data_before_expert_parallel", "parallel.layout shares out experts among neighbours of dp and cp: dp=4,ep=2"},
    {"disable_allgather", "weights are gathered as parallel.zero asks"},
    {"seq_parallel_communication_data_type", "sequences are not cut among processes"},
    {"compile", "train.optimize chooses how a step is made faster"},
    {"autotuning", "memory.budget chooses how memory is saved; the batch is yours to choose"},
    {"aio", "nothing is kept on disks while training"},
};

const DeepSpeedNotes kNotHere = {
    {"amp", "Apex is not here; use fp16 or bf16"},
    {"sparse_gradients", "gradients of embeddings are dense here"},
    {"sparse_attention", "attention is dense here"},
    {"pipeline", "pipelines are not here yet"},
    {"tensor_parallel", "layers are not cut among processes yet"},
    {"elasticity", "the number of processes is fixed from start to end; another one may resume"},
    {"curriculum_learning", "samples come in random order"},
    {"data_efficiency", "samples come in random order, with all their tokens"},
    {"progressive_layer_drop", "every layer is always computed"},
    {"compression_training", "weights are trained as they are"},
    {"quantize_training", "weights are trained as they are"},
    {"eigenvalue", "weights are trained as they are"},
    {"hybrid_engine", "training and generating are commands of their own"},
    {"nebula", "checkpoints are written to the run's folder"},
};

// How many processes the three speak of; 0: of any number.
int64_t read_batch(DeepSpeedKeys& top, int64_t ranks) {
  const auto all = top.whole(kAllSamples, 1, kMostSamples), part = top.whole(kPartSamples, 1, kMostSamples),
             parts = top.whole(kParts, 1, kMostSamples);
  const int64_t times = parts.value_or(1);
  const auto accumulate = [&](const char* key, int64_t count, const std::string& more = {}) {
    if (count != 1 || parts) top.set(key, "train.accumulate", format("{}", count), more);
  };
  if (!all) {
    constexpr int64_t kTheirs = 8;
    if (part || parts)
      top.set(part ? kPartSamples : kParts, "train.batch_per_rank", format("{}", part.value_or(kTheirs) * times),
              part ? format("x {}, the samples of an update on each process", times)
                   : format("of {} samples each, as Hugging Face's default is", kTheirs));
    else if (!top.is_auto(kAllSamples) && !top.is_auto(kPartSamples))
      top.note(kAllSamples, "the file has no batch size; hyperion's own default holds");
    accumulate(kParts, times);
    return ranks;
  }
  if (!part) {
    if (*all % (times * std::max<int64_t>(ranks, 1)) != 0) {
      top.refuse(kAllSamples, format("{} is no multiple of {} {}{}", *all, kParts, times,
                                     ranks > 0 ? format(" x {} processes", ranks) : ""));
      return ranks;
    }
    top.set(kAllSamples, "train.batch", format("{}", *all));
    accumulate(kParts, times);
    return ranks;
  }
  const int64_t of_one = *part * times;
  if (*all % of_one != 0 || (ranks > 0 && *all != of_one * ranks && parts)) {
    top.refuse(kAllSamples, format("{} is not {} {} x {} {} x {}", *all, kPartSamples, *part, kParts, times,
                                   ranks > 0 ? format("{} processes", ranks) : "a number of processes"));
    return ranks;
  }
  top.set(kAllSamples, "train.batch", format("{}", *all));
  if (parts) {
    accumulate(kParts, times);
    return *all / of_one;
  }
  const int64_t processes = std::max<int64_t>(ranks, 1);
  if (*all % (*part * processes) != 0) {
    top.refuse(kAllSamples, format("{} is no multiple of {} {} x {} processes", *all, kPartSamples, *part, processes));
    return ranks;
  }
  accumulate(kPartSamples, *all / *part / processes,
             ranks > 0 ? "" : format("on one process; on N it is {} / N", *all / *part));
  return ranks;
}

bool is_enabled(std::optional<DeepSpeedKeys>& section) { return section && section->flag("enabled").value_or(false); }

void read_fp16(DeepSpeedKeys& fp16) {
  fp16.set("enabled", "train.precision", "fp16");
  constexpr int64_t kMostPower = 40;  // of train.loss_scale
  if (const auto power = fp16.whole("initial_scale_power", 0))
    fp16.set("initial_scale_power", "train.loss_scale",
             format("{}", std::pow(2.0, static_cast<double>(std::min(*power, kMostPower)))),
             *power > kMostPower ? "the largest there is; it halves at each overflow" : "");
  if (const auto scale = fp16.number("loss_scale"); scale && *scale != 0)
    fp16.set("loss_scale", "train.loss_scale", format("{}", *scale), "the first one; it follows what overflows");
  fp16.note_all({{"loss_scale_window", "the loss scale doubles after 2,000 steps without an overflow"},
                 {"hysteresis", "the loss scale halves at each overflow"},
                 {"consecutive_hysteresis", "the loss scale halves at each overflow"},
                 {"min_loss_scale", "the loss scale has no least value"},
                 {"auto_cast", "inputs are always of the type of the weights"}});
  fp16.refuse_used({{"fp16_master_weights_and_grads", "masters are always fp32 here"}});
  fp16.refuse_unread();
}

void read_bf16(DeepSpeedKeys& bf16) {
  bf16.set("enabled", "train.precision", "bf16");
  bf16.note_all({{"immediate_grad_update", "gradients are added up in fp32 as they come"},
                 {"check_grad_overflow", "a norm that is not finite always ends the run"}});
  bf16.refuse_used({{"bf16_master_weights_and_grads", "masters are always fp32 here"},
                    {"bf16_optimizer_states", "moments are always fp32 here"}});
  bf16.refuse_unread();
}

// Whether weights and gradients are of two bytes.
bool read_precision(DeepSpeedKeys& top) {
  auto fp16 = top.object("fp16"), bf16 = top.object(top.has("bfloat16") ? "bfloat16" : "bf16");
  const bool half = is_enabled(fp16), brain = is_enabled(bf16);
  if (half && brain) top.refuse("fp16", "is enabled, and bf16 too");
  if (half) read_fp16(*fp16);
  if (brain) read_bf16(*bf16);
  top.object("bf16"), top.object("bfloat16");
  return half || brain;
}

void read_wire(DeepSpeedKeys& top) {
  if (top.flag("fp32_allreduce").value_or(false)) top.set("fp32_allreduce", "parallel.wire", "fp32");
  if (const auto type = top.word("communication_data_type")) {
    const std::string known = *type == "bfp16" || *type == "bfloat16" ? "bf16" : *type;
    if (known == "fp32" || known == "fp16" || known == "bf16")
      top.set("communication_data_type", "parallel.wire", known);
    else
      top.refuse("communication_data_type", "must be fp32, fp16 or bf16");
  }
  if (auto types = top.object("data_types")) {
    if (const auto sums = types->word("grad_accum_dtype"); sums && *sums != "fp32")
      types->refuse("grad_accum_dtype", "gradients are always added up in fp32 here");
    types->refuse_unread();
  }
}

void read_recomputation(DeepSpeedKeys& top) {
  auto kept = top.object("activation_checkpointing");
  if (!kept) return;
  top.set("activation_checkpointing", "memory.recompute", "full",
          "each block; \"none\" where the model did not use it");
  if (kept->flag("cpu_checkpointing").value_or(false))
    kept->set("cpu_checkpointing", "memory.offload_activations", "true");
  kept->note_all({{"partition_activations", "activations are not cut among processes: layers are not"},
                  {"contiguous_memory_optimization", "the allocator keeps its blocks from step to step"},
                  {"number_checkpoints", "memory.recompute_every = N keeps the activations of the blocks between"},
                  {"synchronize_checkpoint_boundary", "streams wait for each other only where they must"},
                  {"profile", "`hyperion bench memory` tells what recomputation saves and costs"}});
  kept->refuse_unread();
}

// The library keeps the last of two equal keys; DeepSpeed refuses both, and so must we.
void refuse_twice(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> open;
  [[maybe_unused]] const Json read = Json::parse(text, [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      throw base::ConfigError(format("{} has {} twice in one object", file, parsed.dump()), "leave one of them out");
    return true;
  });
}

[[noreturn]] void refuse_file(const std::string& file, const std::vector<std::string>& refusals) {
  std::string all = refusals.size() == 1 ? " " : "";
  for (const auto& one : refusals) all += (refusals.size() == 1 ? "" : "\n  ") + one;
  throw base::ConfigError(format("{} cannot be carried over:{}", file, all),
                          "nothing was written; change or leave out what is named");
}

}  // namespace

DeepSpeedRecipe read_deepspeed(std::string_view text, const std::string& file, int64_t ranks) {
  const Json json = base::parse_json(text, file);
  if (!json.is_object())
    throw base::ConfigError(format("{} is JSON, but no object of DeepSpeed's settings", file),
                            "it begins with {, and has keys such as \"train_batch_size\"");
  refuse_twice(text, file);
  DeepSpeedFindings found;
  DeepSpeedKeys top(json, "", found);
  found.recipe.ranks = read_batch(top, ranks);
  const bool narrow = read_precision(top);
  read_deepspeed_update(top);
  if (auto zero = top.object("zero_optimization")) read_deepspeed_zero(*zero, narrow);
  read_wire(top);
  read_recomputation(top);
  if (const auto every = top.whole("steps_per_print", 1))
    top.set("steps_per_print", "train.log_every", format("{}", std::min<int64_t>(*every, 1'000'000)));
  if (top.flag("memory_breakdown").value_or(false)) top.set("memory_breakdown", "memory.report", "true");
  top.note_all(kWithoutCounterpart);
  top.refuse_used(kNotHere);
  top.refuse_unread();
  if (!found.refusals.empty()) refuse_file(file, found.refusals);
  return found.recipe;
}

}  // namespace hyperion::interop

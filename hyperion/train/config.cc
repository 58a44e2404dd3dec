#include "hyperion/train/config.h"

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/profile/trace_plan.h"
#include "hyperion/report/metric_sinks.h"
#include "hyperion/strategy/pipeline.h"

namespace hyperion::train {

using base::ConfigError;
using base::format;

namespace {

void check_adapter(const RunConfig& config, AdaptedWeights adapted) {
  if (config.lora.rank == 0) {
    if (config.model.quantize != models::Quantize::none)
      throw ConfigError(format("model.quantize = \"{}\" freezes the model, and lora.rank = 0 leaves nothing to train",
                               base::word_of(config.model.quantize)),
                        "set lora.rank, or leave model.quantize out");
    return;
  }
  nn::config_of(config.lora);
  if (config.model.from.empty() && adapted == AdaptedWeights::given)
    throw ConfigError("lora.rank is set, but there is no model.from to adapt",
                      "name the model whose weights stay frozen");
}

}  // namespace

base::Settings bind(RunConfig& config) {
  base::Settings settings;
  LoopConfig& train = config.train;
  settings.section("train", "the loop")
      .integer("steps", train.steps, {1, 1'000'000'000}, "updates in all")
      .integer("epochs", train.epochs, {0, 1'000'000},
               "in place of train.steps: how often each sample is seen; 0: as long as train.steps says")
      .integer("seed", train.seed, {0, 9e15}, "every random number comes from it")
      .choice("device", train.device, "auto takes a GPU if there is one")
      .choice("precision", train.precision,
              "of weights and activations; masters are always fp32. tf32: fp32 with a GPU's faster products; fp8: bf16 "
              "with the products of transformer blocks in 8 bits")
      .choice("optimize", train.optimize,
              "plain operations; fused ones; the whole step as one GPU graph; and each product's fastest way, measured")
      .real("loss_scale", train.loss_scale, {1, 0x1p40}, "what fp16 starts with; it follows what overflows")
      .integer("batch", train.batch, {1, 1 << 20}, "samples of one update")
      .integer("batch_per_rank", train.batch_per_rank, {0, 1 << 20},
               "in place of train.batch: samples of one update on each process; 0: train.batch says")
      .integer("accumulate", train.accumulate, {1, 1 << 16}, "parts the batch is computed in; must divide it")
      .integer("length", train.length, {1, 1 << 20}, "tokens of a sample", "tokens")
      .integer("threads", train.threads, {0, 4096}, "CPU threads; 0 takes the cores this process may use")
      .integer("patience", train.patience, {0, 1'000'000},
               "early stopping: the run ends after so many validations in a row without a lower loss; 0: never")
      .real("min_delta", train.min_delta, {0, 1e9}, "how much lower a validation loss must be for train.patience")
      .flag("accuracy", train.accuracy,
            "count how many tokens of each step the model predicts rightly, which takes whole logits; of images it is "
            "always counted")
      .flag("deterministic", train.deterministic, "bit-for-bit repeatable on a GPU too, at some cost in speed")
      .flag("watch", train.watch, "tell which rank, input or link holds the run up; costs next to nothing")
      .text("profile", train.profile,
            "steps to trace, on all processes, into the run's folder: 1+3@100 is one of warm-up from step 100 on, then "
            "three "
            "that are traced; 1+3@100,every=1000 again and again; 1+3@100,memory with all that is "
            "allocated; empty: none")
      .list("report_to", train.report_to,
            "other tools that get what metrics.jsonl gets, in the run's folder: tensorboard (tb), wandb, mlflow "
            "(mlruns), "
            "prometheus; or none")
      .integer("log_every", train.log_every, {1, 1'000'000},
               "between step lines that stay; a terminal shows all others in one line", "steps");
  settings.section("fp8", "products in 8 bits, where train.precision is fp8")
      .choice("scale", config.fp8.options.scale,
              "what a matrix is scaled by: the largest value of the steps before; its own, which takes a pass more; or "
              "each row by its own")
      .integer("history", config.fp8.options.history, {1, 1024}, "that delayed scales look back", "steps")
      .flag("measure", config.fp8.measure, "leave a layer in bf16 whose products would not be faster");
  settings.section("eval", "validation")
      .integer("every", config.eval.every, {0, 1'000'000'000}, "between validations; 0: only at the end", "steps")
      .integer("batches", config.eval.batches, {1, 1'000'000}, "validation batches of train.batch samples each time")
      .list("prompts", config.eval.prompts, "texts that the model continues at each validation, the likeliest way")
      .integer("prompt_tokens", config.eval.prompt_tokens, {1, 1 << 16}, "that each gets at most", "tokens");
  settings.section("checkpoint", "what a resume starts from")
      .integer("every", config.checkpoint.every, {0, 1'000'000'000}, "between checkpoints; 0: only at the end", "steps")
      .integer("keep", config.checkpoint.keep, {1, 1'000'000}, "newest checkpoints kept")
      .integer("keep_every", config.checkpoint.keep_every, {0, 1'000'000'000},
               "and of each so many steps the first checkpoint is kept for ever; 0: none", "steps")
      .flag("best", config.checkpoint.best,
            "the one with the lowest validation loss stays too, and is written at that validation; not where "
            "checkpoint.every is 0")
      .choice("async", config.checkpoint.async,
              "training goes on while a checkpoint is written, from a copy of the state in host memory; auto: where a "
              "GPU trains");
  parallel::describe(settings, config.parallel);
  describe(settings, config.memory);
  models::describe(settings, config.model);
  nn::describe(settings, config.lora);
  data::describe(settings, config.prepare);
  data::describe(settings, config.data);
  optim::describe(settings, config.optim);
  return settings;
}

at::ScalarType compute_type(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return at::kFloat;
    case Precision::bf16:
    case Precision::fp8:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
  }
  return at::kFloat;
}

const char* precision_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : "fp32";
}

std::string model_config(base::FileSystem& files, const RunConfig& config) {
  if (config.model.from.empty()) return models::config_json(config.model);
  models::check_from(config.model);
  const std::string base = interop::read_model_config(files, config.model.from);
  if (config.lora.rank > 0 && models::is_resnet(base, config.model.from))
    throw ConfigError(
        format("lora.rank = {} is set, and model.from = \"{}\" is a ResNet: LoRA's layers are linear ones, "
               "and a ResNet has only its head",
               config.lora.rank, config.model.from),
        "train it whole: leave [lora] out");
  return models::config_of_base(config.model, base);
}

void check(const RunConfig& config, AdaptedWeights adapted) {
  const LoopConfig& train = config.train;
  data::check(config.data);
  check(config.memory);
  const bool each = train.batch_per_rank > 0;
  if (const int64_t batch = each ? train.batch_per_rank : train.batch; batch % train.accumulate != 0)
    throw ConfigError(format("train.accumulate = {} does not divide train.{} = {}", train.accumulate,
                             each ? "batch_per_rank" : "batch", batch),
                      "choose a batch that splits into that many equal parts");
  if (train.epochs == 0 && config.optim.warmup > train.steps)
    throw ConfigError(format("optim.warmup = {} is longer than train.steps = {}", config.optim.warmup, train.steps),
                      "the peak learning rate would never be reached: shorten the warm-up or train for longer");
  if (config.optim.decay_steps > 0 && config.optim.warmup > config.optim.decay_steps)
    throw ConfigError(format("optim.warmup = {} is longer than optim.decay_steps = {}", config.optim.warmup,
                             config.optim.decay_steps),
                      "the schedule would end before its peak: shorten the warm-up or raise optim.decay_steps");
  if (train.accuracy && records_graphs(train.optimize))
    throw ConfigError(format("train.accuracy is not counted in the recorded steps of train.optimize = \"{}\"",
                             base::word_of(train.optimize)),
                      "use train.optimize = fused, or leave train.accuracy out: validations have an accuracy too");
  if (train.patience > 0 && config.eval.every == 0)
    throw ConfigError(
        format("train.patience = {} counts validations, and eval.every = 0 leaves only the one at the end",
               train.patience),
        "set eval.every, or leave train.patience out");
  profile::TracePlan::parse(train.profile, "train.profile");
  report::metric_tools(train.report_to, "train.report_to");
  if (train.precision == Precision::fp8 && train.optimize == Optimize::reference)
    throw ConfigError(
        "train.precision = \"fp8\" is made of fused operations, and train.optimize = \"reference\" has none",
        "use fused, graph or max; what fp8 is held against is bf16");
  check_adapter(config, adapted);
  if (!config.model.from.empty()) return models::check_from(config.model);
  check(config, models::config_shape(models::config_json(config.model), "[model]", train.length));
}

void check_schedule(const RunConfig& config) {
  const auto schedule = optim::schedule_of(config.optim, config.train.steps);
  const auto steps = static_cast<double>(schedule.steps);
  if (schedule.shape != optim::ScheduleShape::wsd || schedule.decay == 0 || schedule.decay * steps >= 1) return;
  throw ConfigError(
      format("optim.decay = {:g} of a schedule of {} steps is less than one step", schedule.decay, schedule.steps),
      format("the learning rate would never come down: raise optim.decay to {:g} or more; 0 keeps the peak to the end",
             std::ceil(100 / steps) / 100));
}

void check(const RunConfig& config, const strategy::ModelShape& shape) {
  const LoopConfig& train = config.train;
  if (shape.context == 0 && !config.eval.prompts.empty())
    throw ConfigError("eval.prompts is set, and the model reads images", "leave it out: the page shows predictions");
  if (shape.context > 0 && train.length > shape.context)
    throw ConfigError(format("train.length = {} is longer than model.context = {}", train.length, shape.context),
                      config.model.from.empty()
                          ? "raise model.context or shorten train.length"
                          : format("that is as far as model.from = \"{}\" reaches: --train.length={}",
                                   config.model.from, shape.context));
  const int64_t longest_question = 2 * config.data.digits + 2;  // "999+999:"
  if (config.data.source == data::SourceKind::sums && shape.context > 0 && shape.context <= longest_question)
    throw ConfigError(
        format("model.context = {} cannot hold a question of data.digits = {}", shape.context, config.data.digits),
        format("questions have up to {} characters: raise model.context or lower data.digits", longest_question));
}

bool needs_equal_shares(const RunConfig& config) {
  return config.parallel.same_bits || config.parallel.sync_batch_norm;
}

void check_pipeline(const RunConfig& config, const strategy::Layout& layout) {
  const strategy::Pipeline pipeline{config.parallel.schedule, layout.pp, config.parallel.stages(),
                                    config.train.accumulate};
  strategy::check(pipeline);
  strategy::check_zero(pipeline, config.parallel.zero);
  if (config.parallel.same_bits && strategy::splits_backward(pipeline.schedule))
    throw ConfigError(
        format("the schedule {} cannot be had with parallel.same_bits: a table that is the output too "
               "would be summed in another order",
               base::word_of(pipeline.schedule)),
        format("use the schedule {}, or leave parallel.same_bits out", pipeline.chunks > 1 ? "interleaved" : "1f1b"));
}

void check_processes(const RunConfig& config, int64_t processes) {
  const auto layout = parallel::layout_of(config.parallel, processes);
  const int64_t sharers = layout.dp();
  const LoopConfig& train = config.train;
  if (layout.pp > 1) check_pipeline(config, layout);
  const int64_t parts = train.accumulate * sharers;
  if (train.batch < parts)
    throw ConfigError(
        format("{} processes with train.accumulate = {} cannot share train.batch = {}: each computes {} "
               "part{} of a sample or more",
               sharers, train.accumulate, train.batch, train.accumulate, train.accumulate == 1 ? "" : "s"),
        format("choose a batch of {} or more", parts));
  if (train.batch % parts != 0 && needs_equal_shares(config))
    throw ConfigError(
        format("{} processes with train.accumulate = {} cannot share train.batch = {} evenly, as parallel.{} needs it",
               sharers, train.accumulate, train.batch, config.parallel.same_bits ? "same_bits" : "sync_batch_norm"),
        format("choose a batch that is a multiple of {}", parts));
  if (config.parallel.same_bits && train.precision == Precision::fp8)
    throw ConfigError(
        "the scales of train.precision = \"fp8\" follow how a batch is cut; its bits do not stay the same",
        "use bf16 or fp32 with --deterministic=layout");
  if (config.parallel.same_bits && (sharers & (sharers - 1)) != 0) {
    strategy::Layout other = layout;
    for (other.dp_shard = 1; other.dp_shard * 2 < sharers;) other.dp_shard *= 2;
    throw ConfigError(
        format("parallel.same_bits needs 1, 2, 4, 8, ... processes that share the batch, and there are {}", sharers),
        format("start {} processes for --parallel {}", other.processes(), other.text()));
  }
  if (config.memory.on_oom == OnOom::adapt && processes == 1 && (config.parallel.zero > 0 || config.parallel.same_bits))
    throw ConfigError(format("memory.on_oom = \"adapt\" cannot try a step again whose gradients went into shards, as "
                             "with parallel.{}",
                             config.parallel.zero > 0 ? "zero" : "same_bits"),
                      "one process alone needs neither: leave it out, or use a larger train.accumulate");
  if (processes == 1) return;
  if (!config.memory.budget.empty())
    throw ConfigError("memory.budget would choose on each of several processes by itself",
                      "set memory.recompute and the offloads, the same for all");
  if (config.memory.on_oom == OnOom::adapt)
    throw ConfigError("memory.on_oom = \"adapt\" would change the parts of one process and not of the others",
                      "use a larger train.accumulate");
}

}  // namespace hyperion::train

#include "hyperion/train/config.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::train {

using base::ConfigError;
using base::format;

base::Settings bind(RunConfig& config) {
  base::Settings settings;
  LoopConfig& train = config.train;
  settings.section("train", "the loop")
      .integer("steps", train.steps, {1, 1'000'000'000}, "updates in all")
      .integer("seed", train.seed, {0, 9e15}, "every random number comes from it")
      .choice("device", train.device, {"auto", "cpu", "cuda"}, "auto takes a GPU if there is one")
      .choice("precision", train.precision, {"fp32", "bf16"}, "of weights and activations; masters are always fp32")
      .choice("optimize", train.optimize, {"reference", "fused"}, "the model's operations: plain ones, or fused")
      .integer("batch", train.batch, {1, 1 << 20}, "samples of one update")
      .integer("accumulate", train.accumulate, {1, 1 << 16}, "parts the batch is computed in; must divide it")
      .integer("length", train.length, {1, 1 << 20}, "tokens of a sample", "tokens")
      .integer("threads", train.threads, {0, 4096}, "CPU threads; 0 takes the cores this process may use")
      .flag("deterministic", train.deterministic, "bit-for-bit repeatable on a GPU too, at some cost in speed")
      .integer("log_every", train.log_every, {1, 1'000'000}, "a step line where there is no terminal", "steps");
  settings.section("eval", "validation")
      .integer("every", config.eval.every, {0, 1'000'000'000}, "between validations; 0: only at the end", "steps")
      .integer("batches", config.eval.batches, {1, 1'000'000}, "validation batches each time");
  settings.section("checkpoint", "what a resume starts from")
      .integer("every", config.checkpoint.every, {0, 1'000'000'000}, "between checkpoints; 0: only at the end", "steps")
      .integer("keep", config.checkpoint.keep, {1, 1'000'000}, "newest checkpoints kept");
  models::describe(settings, config.model);
  data::describe(settings, config.data);
  optim::describe(settings, config.optim);
  return settings;
}

void check(const RunConfig& config) {
  const LoopConfig& train = config.train;
  models::check(config.model);
  data::check(config.data);
  if (train.batch % train.accumulate != 0)
    throw ConfigError(format("train.accumulate = {} does not divide train.batch = {}", train.accumulate, train.batch),
                      "choose a batch that splits into that many equal parts");
  if (train.length > config.model.context)
    throw ConfigError(format("train.length = {} is longer than model.context = {}", train.length, config.model.context),
                      "raise model.context or shorten train.length");
  const int64_t longest_question = 2 * config.data.digits + 2;  // "999+999:"
  if (config.data.source == "sums" && config.model.context <= longest_question)
    throw ConfigError(
        format("model.context = {} cannot hold a question of data.digits = {}", config.model.context,
               config.data.digits),
        format("questions have up to {} characters: raise model.context or lower data.digits", longest_question));
  if (config.optim.warmup > train.steps)
    throw ConfigError(format("optim.warmup = {} is longer than train.steps = {}", config.optim.warmup, train.steps),
                      "the peak learning rate would never be reached: shorten the warm-up or train for longer");
}

}  // namespace hyperion::train

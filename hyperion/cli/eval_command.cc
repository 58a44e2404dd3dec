#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/measure_command.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/cli/text_flags.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/usage.h"
#include "hyperion/device/device.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/measure.h"
#include "hyperion/train/run_identity.h"
#include "hyperion/train/run_log.h"

namespace hyperion::cli {
namespace {

using base::format;
using base::Json;

// A run on the part of its own data that it never saw.
int evaluate_run(const EvalOptions& options) {
  const std::string& model = options.models.front();
  const auto device = device::open_device(options.device);
  auto opened = open_in_form(model, device, options.quantize);
  if (opened.run.empty())
    throw base::ConfigError(
        format("{} lies outside a run, so its validation data is not known", model),
        "name the run, or say what to measure it on: --set FOLDER, which `hyperion data prepare` made");
  train::RunConfig config;
  const auto settings = read_run_config(config, opened.run, {});
  device::allow_tf32(config.train.precision == train::Precision::tf32);
  train::check_same_run(base::real_files(), opened.run.filename().string(), opened.checkpoint, settings);
  if (options.batches > 0) config.eval.batches = options.batches;
  const auto split = train::open_split(config, opened.model->shape(config.train.length));
  base::ProgressLine progress;
  progress.show("evaluating");
  const auto result = train::evaluate(*opened.model, device, split, config);
  expect_finite_loss(model, result.loss);
  const auto answers = train::answer_questions(*opened.model, device, split.questions, [&](size_t done, size_t all) {
    progress.show(format("answering {} of {} unseen questions", done, all));
  });
  progress.clear();
  if (options.json) {
    Json json = {{"model", model},        {"step", opened.step}, {"quantize", opened.quantized ? "nf4" : "none"},
                 {"split", result.split}, {"loss", result.loss}, {"answers_right", nullptr}};
    const std::pair<const char*, std::optional<double>> figures[] = {{"perplexity", result.perplexity},
                                                                     {"token_accuracy", result.token_accuracy},
                                                                     {"top_1", result.top_1},
                                                                     {"top_5", result.top_5}};
    for (const auto& [name, value] : figures)
      if (value) json[name] = *value;
    if (!split.questions.empty()) json["answers_right"] = answers.right;
    std::printf("%s\n", json.dump(2).c_str());
    return 0;
  }
  std::printf("%s, step %ld\n%s\n", model.c_str(), static_cast<long>(opened.step),
              train::evaluation_text(result).c_str());
  if (!split.questions.empty())
    std::printf("\nunseen questions, and what the model answers:\n%sright: %.1f%% of %zu questions it never saw\n",
                train::sample_lines(answers.samples, 6).c_str(), 100 * answers.right, split.questions.size());
  return 0;
}

int eval_command(const EvalOptions& options) {
  if (!options.set.empty()) return measure_command(options);
  if (options.models.size() > 1)
    throw base::ConfigError(format("{} models are compared on one set, and none is named", options.models.size()),
                            "add --set FOLDER, which `hyperion data prepare` made");
  return evaluate_run(options);
}

}  // namespace

void add_eval_command(Commands& commands) {
  const auto add_flags = [](CLI::App* eval, EvalOptions& options) {
    eval->add_option("MODEL", options.models,
                     "a run's name or folder, or a checkpoint's folder; with --set also a Hugging Face folder or "
                     "OWNER/NAME of the hub (`hyperion fetch`), and several of all these")
        ->required();
    auto* set =
        eval->add_option("--set", options.set,
                         "a prepared set: its validation part, or all of it where nothing was held out (default: "
                         "the run's own validation data)")
            ->check(not_empty());
    eval->add_option("--adapter", options.adapters,
                     "a PEFT adapter for the first MODEL: FOLDER or NAME=FOLDER; may be given again")
        ->allow_extra_args(false)
        ->check(not_empty())
        ->needs(set);
    eval->add_option("--length", options.length,
                     format("tokens at a time (default: what the shortest MODEL was trained on or reads, at most {})",
                            kMeasuredLength))
        ->check(whole_number(1, 1 << 20))
        ->needs(set);
    eval->add_option("--precision", options.precision,
                     "fp32, tf32, bf16 or fp16 (default: as a run was trained, a folder as its files are)")
        ->check(one_of({"fp32", "tf32", "bf16", "fp16"}))
        ->needs(set);
    eval->add_option("--device", options.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
    eval->add_option(
            "--batches", options.batches,
            format("how many (default: as the run; with --set all, of {} samples each)", train::kMeasuredBatch))
        ->check(whole_number(1, 1'000'000));
    eval->add_flag("--json", options.json, "as JSON");
    add_quantize_flag(eval, options.quantize);
    eval->footer(
        "\nWith --set a run that trained an adapter, and a MODEL with --adapter, are measured as base, adapter and "
        "merged."
        "\n\nExamples:\n  hyperion eval quickstart\n  hyperion eval my-qlora --quantize none\n  hyperion eval ./llama "
        "my-sft my-lora --set sets/chats\n  hyperion eval ./llama --adapter ./mine --set sets/chats --json");
  };
  commands.add<EvalOptions>("eval", "measure models on data they never saw", add_flags, eval_command);
}

}  // namespace hyperion::cli

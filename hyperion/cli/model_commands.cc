#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/kernels/device.h"
#include "hyperion/serve/input.h"
#include "hyperion/serve/terminal.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/run_identity.h"
#include "hyperion/train/run_log.h"

namespace hyperion::cli {

using base::format;
using base::Json;

int eval_command(const EvalOptions& options) {
  const auto device = kernels::open_device(options.device);
  auto opened = open_in_form(options.model, device, options.quantize);
  if (opened.run.empty())
    throw base::ConfigError(format("{} lies outside a run, so its validation data is not known", options.model),
                            "name the run, or a checkpoint inside its folder");
  train::RunConfig config;
  const auto settings = read_run_config(config, opened.run / "config.resolved.toml", {});
  kernels::allow_tf32(config.train.precision == "tf32");
  train::check_same_run(base::real_files(), opened.run.filename().string(), opened.checkpoint, settings);
  if (options.batches > 0) config.eval.batches = options.batches;
  const auto split = train::open_split(config, opened.model->shape(config.train.length));
  base::ProgressLine progress;
  progress.show("evaluating");
  const auto result = train::evaluate(*opened.model, device, split, config);
  const auto answers = train::answer_questions(*opened.model, device, split.questions, [&](size_t done, size_t all) {
    progress.show(format("answering {} of {} unseen questions", done, all));
  });
  progress.clear();
  if (options.json) {
    Json json = {{"model", options.model}, {"step", opened.step}, {"quantize", opened.quantized ? "nf4" : "none"},
                 {"split", result.split},  {"loss", result.loss}, {"answers_right", nullptr}};
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
  std::printf("%s, step %ld\n%s\n", options.model.c_str(), static_cast<long>(opened.step),
              train::evaluation_text(result).c_str());
  if (!split.questions.empty())
    std::printf("\nunseen questions, and what the model answers:\n%sright: %.1f%% of %zu questions it never saw\n",
                train::sample_lines(answers.samples, 6).c_str(), 100 * answers.right, split.questions.size());
  return 0;
}

namespace {

std::vector<std::string> prompts_of(const GenerateOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  for (std::string& prompt : prompts)
    if (prompt == "-") prompt = serve::read_prompt(std::cin);
  if (!options.prompts_file.empty()) {
    std::istringstream lines(base::read_to_end(options.prompts_file));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw base::ConfigError("there is no prompt", "give --prompt TEXT, or --prompts FILE");
  return prompts;
}

void print_json(const GenerateOptions& options, const interop::OpenedModel& opened,
                const std::vector<std::string>& prompts, const std::vector<std::string>& texts) {
  const auto adapter = adapter_in_use(options, opened);
  Json list = Json::array();
  for (size_t i = 0; i < texts.size(); ++i)
    list.push_back({{"model", options.model},
                    {"step", opened.step},
                    {"adapter", adapter.empty() ? Json() : Json(adapter)},
                    {"quantize", opened.quantized ? "nf4" : "none"},
                    {"prompt", prompts[i]},
                    {"text", texts[i]}});
  std::printf("%s\n", list.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

int generate_command(const GenerateOptions& options) {
  const auto prompts = prompts_of(options);
  const auto device = kernels::open_device(options.device);
  auto opened = open_text_model(options, device);
  const auto decoding = decoding_of(options);
  if (options.json) {
    print_json(options, opened, prompts, serve::generate(opened, device, prompts, decoding));
    return 0;
  }
  size_t begun = 0;  // a prompt that is refused is not shown
  serve::InTurn in_turn(prompts.size(), [&](size_t index, std::string_view piece, bool last) {
    if (index == begun) {
      if (prompts.size() > 1) std::printf("--- %zu of %zu ---\n", index + 1, prompts.size());
      serve::write_text(prompts[begun]);
      ++begun;
    }
    serve::write_text(piece);
    if (last) std::fputc('\n', stdout);
    std::fflush(stdout);
  });
  serve::generate(opened, device, prompts, decoding,
                  [&](size_t index, std::string_view piece, bool last) { in_turn.take(index, piece, last); });
  return 0;
}

}  // namespace hyperion::cli

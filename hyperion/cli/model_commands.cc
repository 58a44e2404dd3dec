#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/kernels/device.h"
#include "hyperion/serve/generate.h"
#include "hyperion/train/evaluate.h"

namespace hyperion::cli {

using base::format;
using base::Json;

int eval_command(const EvalOptions& options) {
  const auto device = kernels::open_device(options.device);
  auto opened = interop::open_model(base::real_files(), options.model, device);
  if (opened.run.empty())
    throw base::ConfigError(format("{} lies outside a run, so its validation data is not known", options.model),
                            "name the run, or a checkpoint inside its folder");
  train::RunConfig config;
  const auto settings = read_run_config(config, opened.run / "config.resolved.toml", {});
  if (options.batches > 0) config.eval.batches = options.batches;
  const auto split = data::open_data(config.data, config.train.length, config.train.seed);
  base::ProgressLine progress;
  progress.show("evaluating");
  const auto result = train::evaluate(*opened.model, device, *split.validation, config);
  const auto answers = train::answer_questions(*opened.model, device, split.questions, [&](size_t done, size_t all) {
    progress.show(format("answering {} of {} unseen questions", done, all));
  });
  progress.clear();
  if (options.json) {
    Json json = {{"model", options.model},          {"step", opened.step},
                 {"split", result.split},           {"loss", result.loss},
                 {"perplexity", result.perplexity}, {"token_accuracy", result.token_accuracy},
                 {"answers_right", nullptr}};
    if (!split.questions.empty()) json["answers_right"] = answers.right;
    std::printf("%s\n", json.dump(2).c_str());
    return 0;
  }
  std::printf("%s, step %ld\nvalidation loss  %.4f\nperplexity       %.3f\ntoken accuracy   %.1f%%\n",
              options.model.c_str(), static_cast<long>(opened.step), result.loss, result.perplexity,
              100 * result.token_accuracy);
  if (!split.questions.empty())
    std::printf("\nunseen questions, and what the model answers:\n%sright: %.1f%% of %zu questions it never saw\n",
                train::sample_lines(answers.samples, 6).c_str(), 100 * answers.right, split.questions.size());
  return 0;
}

int generate_command(const GenerateOptions& options) {
  std::string prompt = options.prompt;
  if (prompt == "-") prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (options.stop.size() > 1)
    throw base::ConfigError(format("--stop \"{}\" is longer than one character", options.stop),
                            "tokens are bytes: stop at one character");
  const auto device = kernels::open_device(options.device);
  auto opened = interop::open_model(base::real_files(), options.model, device);
  models::DecodeOptions decode;
  decode.new_tokens = options.tokens;
  decode.temperature = options.temperature;
  decode.top_k = options.top_k;
  decode.seed = options.seed;
  if (!options.stop.empty()) decode.stop_token = static_cast<unsigned char>(options.stop.front());
  if (options.json) {
    const auto text = serve::generate(opened, device, prompt, decode);
    std::printf("%s\n", Json{{"model", options.model}, {"step", opened.step}, {"prompt", prompt}, {"text", text}}
                            .dump(2, ' ', false, Json::error_handler_t::replace)
                            .c_str());
    return 0;
  }
  bool begun = false;  // a prompt that is refused is not shown
  serve::generate(opened, device, prompt, decode, [&](std::string_view piece) {
    if (!std::exchange(begun, true)) std::fwrite(prompt.data(), 1, prompt.size(), stdout);
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  });
  std::printf("\n");
  return 0;
}

}  // namespace hyperion::cli

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/signals.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/cli/text_flags.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/device/device.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/nn/pass.h"

namespace hyperion::cli {
namespace {

using base::format;
using base::Json;

struct ClassifyOptions {
  std::string model, device = "auto", quantize, output;  // quantize: none or nf4; empty: as it was trained
  std::vector<std::string> images, adapters;             // adapters: FOLDER or NAME=FOLDER; the first is used
  int64_t top = 5;
  bool json = false;
};

std::vector<std::string> labels_of(const interop::OpenedModel& opened, const std::string& model) {
  const Json config = base::parse_json(opened.model->config_json(), model);
  std::vector<std::string> names;
  for (size_t i = 0; i < config.at("id2label").size(); ++i)
    names.push_back(config["id2label"].at(std::to_string(i)).get<std::string>());
  return names;
}

images::ImageProcessing processing_of(const interop::OpenedModel& opened, const std::string& model) {
  const base::Path path = interop::image_processor(base::real_files(), opened);
  if (path.empty())
    throw base::ConfigError(
        format("it is not known how {} wants its images: it has no {}", model, images::kProcessorFile),
        "runs on images that are read from files keep one, and so do folders exported from them");
  return images::parse_processor(base::read_description(base::real_files(), path), path.string());
}

constexpr uint64_t kLongestFile = uint64_t{1} << 28;

struct Guess {
  std::string label;
  double score;
};

std::vector<Guess> best_of(const at::Tensor& logits, const std::vector<std::string>& labels, int64_t top) {
  const auto [scores, classes] = at::topk(at::softmax(logits, 0), std::min(top, logits.size(0)));
  std::vector<Guess> list;
  for (int64_t i = 0; i < scores.size(0); ++i)
    list.push_back({labels[static_cast<size_t>(classes[i].item<int64_t>())], scores[i].item<double>()});
  return list;
}

void check_tensors_place(const ClassifyOptions& options, const interop::OpenedModel& opened) {
  const base::Path output = base::output_file(options.output, ".safetensors");
  refuse_within_model(output, opened);
  std::error_code ignored;
  for (const auto& image : options.images)
    if (std::filesystem::equivalent(output, image, ignored))
      throw base::ConfigError(format("--output {} is one of the images", options.output), "name another file");
}

int classify_command(const ClassifyOptions& options) {
  const auto device = device::open_device(options.device);
  auto opened = open_in_form(options.model, device, options.quantize, {},
                             options.adapters.empty() ? Laid::nothing : Laid::an_adapter);
  if (opened.model->input() != models::Input::images)
    throw base::ConfigError(format("{} reads text, and does not look at images", options.model),
                            "hyperion generate, or chat");
  add_adapters(opened, options.adapters);
  if (!options.output.empty()) check_tensors_place(options, opened);
  const auto labels = labels_of(opened, options.model);
  const auto processing = processing_of(opened, options.model);
  const auto type = opened.model->parameters().front().tensor.scalar_type();
  const at::NoGradGuard no_grad;
  const auto pixels = at::empty({1, 3, processing.side, processing.side}, at::kFloat);
  Json list = Json::array();
  std::vector<at::Tensor> all_pixels, all_logits;
  for (const auto& path : options.images) {
    base::throw_if_stopped("classifying");
    images::process_image(processing, base::read_to_end(path, kLongestFile), path,
                          {pixels.mutable_data_ptr<float>(), static_cast<size_t>(pixels.numel())});
    nn::Pass pass;
    const auto logits = opened.model->logits(pixels.to(device, type), pass)[0].to(at::kCPU, at::kFloat);
    if (!options.output.empty()) all_pixels.push_back(pixels[0].clone()), all_logits.push_back(logits);
    if (!at::isfinite(logits).all().item<bool>())
      throw base::CorruptError(format("{} gives scores of {} that are not finite", options.model, path),
                               "its weights are damaged, or too large for their type");
    const auto guesses = best_of(logits, labels, options.top);
    if (options.json) {
      Json found = Json::array();
      for (const auto& [label, score] : guesses) found.push_back({{"label", label}, {"score", score}});
      list.push_back({{"image", path}, {"classes", std::move(found)}});
      continue;
    }
    std::printf("%s\n", base::printable_line(path).c_str());
    for (const auto& [label, score] : guesses)
      std::printf("  %5.1f%%  %s\n", 100 * score, base::printable_line(label).c_str());
    std::fflush(stdout);
  }
  if (!options.output.empty())
    checkpoint::replace_safetensors(base::real_files(), options.output,
                                    {{"pixel_values", at::stack(all_pixels)}, {"logits", at::stack(all_logits)}});
  if (options.json) std::printf("%s\n", list.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  return 0;
}

}  // namespace

void add_classify_command(Commands& commands) {
  const auto add_flags = [](CLI::App* classify, ClassifyOptions& options) {
    classify
        ->add_option("MODEL", options.model,
                     "a run's name or folder, RUN@best, a Hugging Face folder, or OWNER/NAME of the hub")
        ->required();
    classify->add_option("IMAGE", options.images, "JPEG or PNG files")->required();
    classify->add_option("--top", options.top, "classes shown of each image")->check(whole_number(1, 1'000'000));
    classify->add_option("--device", options.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
    classify->add_flag("--json", options.json, "as JSON");
    classify->add_option("--adapter", options.adapters, "a PEFT adapter: FOLDER or NAME=FOLDER")
        ->expected(1)
        ->allow_extra_args(false)
        ->check(not_empty());
    classify->add_option(
        "--output", options.output,
        "a .safetensors file: pixel_values as the model takes them, which probe and transformers read, "
        "and logits");
    add_quantize_flag(classify, options.quantize);
    classify->footer(
        "\nExamples:\n  hyperion classify my-images cat.jpg\n  hyperion classify vit-hf *.png --top 1 --json\n  "
        "hyperion "
        "classify vit-hf photo.jpg --adapter ./mine --output photo.safetensors");
  };
  commands.add<ClassifyOptions>("classify", "say what is on images", add_flags, classify_command);
}

}  // namespace hyperion::cli

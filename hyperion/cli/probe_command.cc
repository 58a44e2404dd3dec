// What a user runs to see that a model here is the model there.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/cli/text_flags.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/device/device.h"
#include "hyperion/interop/peft.h"
#include "hyperion/kernels/cross_entropy.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

constexpr int64_t kIgnored = -100;
constexpr const char* kAdapter = "adapter";

struct ProbeInput {
  at::Tensor ids, mask, labels;  // mask: bool; mask and labels may be undefined
  at::Tensor pixels;             // in place of ids, for models of images
};

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.sizes()) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

at::Tensor read_ids(const checkpoint::SafetensorsFile& file, const std::string& name, const std::string& place) {
  const auto tensor = file.tensor(name);
  if (tensor.scalar_type() != at::kLong)
    throw ConfigError(format("{}: {} holds {}, not int64", place, name, c10::toString(tensor.scalar_type())));
  return tensor;
}

std::string place_text(const at::Tensor& tensor, int64_t index) {
  if (tensor.dim() == 1) return std::to_string(index);
  return format("{}, {}", index / tensor.size(1), index % tensor.size(1));
}

void check_range(const at::Tensor& ids, const std::string& name, const char* kind, int64_t count, bool may_ignore,
                 const std::string& place) {
  const auto* values = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if ((values[i] >= 0 && values[i] < count) || (may_ignore && values[i] == kIgnored)) continue;
    throw ConfigError(format("{}: {}[{}] = {} is not a {} of this model, 0 to {}{}", place, name, place_text(ids, i),
                             values[i], kind, count - 1, may_ignore ? ", nor -100" : ""));
  }
}

at::Tensor read_mask(const checkpoint::SafetensorsFile& file, const std::string& place) {
  const auto tensor = file.tensor("attention_mask");
  if (!c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true))
    throw ConfigError(
        format("{}: attention_mask holds {}, not whole numbers", place, c10::toString(tensor.scalar_type())));
  const auto mask = tensor.to(at::kLong);
  const auto* values = mask.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < mask.numel(); ++i)
    if (values[i] != 0 && values[i] != 1)
      throw ConfigError(format("{}: attention_mask holds {}, not only 0 and 1", place, values[i]));
  return mask.to(at::kBool);
}

// Only the tensors of this kind of model, and the first of them for certain.
void check_names(const checkpoint::SafetensorsFile& file, const std::string& path,
                 const std::vector<std::string>& known, const std::string& other, const std::string& hint) {
  if (file.has(other))
    throw ConfigError(format("{} holds {}, and the model takes {}", path, other, known.front()), hint);
  for (const auto& name : file.names())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw ConfigError(format("{}: tensor \"{}\" is not known", path, name), hint);
  if (!file.has(known.front())) throw ConfigError(format("{} holds no {}", path, known.front()), hint);
}

ProbeInput read_tokens(const checkpoint::SafetensorsFile& file, const std::string& path, int64_t vocabulary) {
  check_names(file, path, {"input_ids", "attention_mask", "labels"}, "pixel_values",
              "give input_ids, int64 [batch, length], and if wanted attention_mask and labels");
  ProbeInput input;
  input.ids = read_ids(file, "input_ids", path);
  if (input.ids.dim() != 2 || input.ids.numel() == 0)
    throw ConfigError(format("{}: input_ids is {}, not [batch, length]", path, shape_text(input.ids)));
  check_range(input.ids, "input_ids", "token id", vocabulary, false, path);
  if (file.has("attention_mask")) input.mask = read_mask(file, path);
  if (file.has("labels")) input.labels = read_ids(file, "labels", path);
  for (const auto& [name, tensor] : {std::pair("attention_mask", input.mask), std::pair("labels", input.labels)})
    if (tensor.defined() && tensor.sizes() != input.ids.sizes())
      throw ConfigError(
          format("{}: {} is {}, and input_ids is {}", path, name, shape_text(tensor), shape_text(input.ids)));
  if (input.labels.defined()) check_range(input.labels, "labels", "token id", vocabulary, true, path);
  return input;
}

ProbeInput read_images(const checkpoint::SafetensorsFile& file, const std::string& path, int64_t classes) {
  // Logits are as `classify --output` writes them, and passed over.
  check_names(file, path, {"pixel_values", "labels", "logits"}, "input_ids",
              "give pixel_values, fp32 [batch, channels, height, width], and if wanted labels");
  ProbeInput input;
  input.pixels = file.tensor("pixel_values");
  if (input.pixels.scalar_type() != at::kFloat || input.pixels.dim() != 4 || input.pixels.numel() == 0)
    throw ConfigError(format("{}: pixel_values is {} {}, not fp32 [batch, channels, height, width]", path,
                             c10::toString(input.pixels.scalar_type()), shape_text(input.pixels)));
  if (!file.has("labels")) return input;
  input.labels = read_ids(file, "labels", path);
  if (input.labels.dim() != 1 || input.labels.size(0) != input.pixels.size(0))
    throw ConfigError(format("{}: labels is {}, not one class for each of {} images", path, shape_text(input.labels),
                             input.pixels.size(0)));
  check_range(input.labels, "labels", "class", classes, true, path);
  return input;
}

ProbeInput read_input(const std::string& path, const models::Model& model) {
  const checkpoint::SafetensorsFile file{base::Path(path)};
  const int64_t count = model.shape(1).vocabulary;
  return model.input() == models::Input::images ? read_images(file, path, count) : read_tokens(file, path, count);
}

at::ScalarType type_of(const std::string& precision) {
  if (precision == "fp32") return at::kFloat;
  if (precision == "bf16") return at::kBFloat16;
  throw ConfigError(format("--precision {} is not known", precision), "use fp32 or bf16");
}

// Each position is scored on the token after it; labels of -100 count for nothing.
at::Tensor shifted_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const int64_t length = labels.size(1) - 1;
  return kernels::cross_entropy(logits.narrow(1, 0, length), labels.narrow(1, 1, length));
}

// Of every parameter; with an adapter of its parameters, under PEFT's names: the rest is frozen.
std::vector<checkpoint::NamedTensor> gradients_of(models::Model& model, const std::string& adapter) {
  std::vector<checkpoint::NamedTensor> list;
  if (!adapter.empty()) {
    for (const auto& [name, tensor] : model.adapters().parameters(adapter))
      list.push_back({interop::peft_key(name), tensor.grad().to(at::kFloat)});
    return list;
  }
  for (const auto& parameter : model.parameters()) {
    if (!parameter.tensor.grad().defined()) continue;  // frozen, or of an expert that saw nothing
    const auto gradient = parameter.tensor.grad().to(at::kFloat);
    list.push_back({parameter.name, gradient});
    // Where the class and its files call a parameter differently, a user may look for either.
    if (const auto stored = model.stored_name(parameter.name); stored != parameter.name)
      list.push_back({stored, gradient});
  }
  return list;
}

}  // namespace

int probe_command(const ProbeOptions& options) {
  std::error_code missing;
  if (std::filesystem::equivalent(options.input, options.output, missing))
    throw ConfigError(format("--output {} is the input itself", options.output), "name another file");
  const auto device = device::open_device(options.device);
  auto opened = open_in_form(options.model, device, options.quantize, type_of(options.precision),
                             options.adapter.empty() ? Laid::nothing : Laid::an_adapter);
  if (!options.adapter.empty()) interop::add_adapter(base::real_files(), options.adapter, opened, kAdapter);
  if (options.grads && opened.quantized && opened.model->adapters().empty())
    throw ConfigError("--grads needs weights that can be trained, and those in 4 bits (nf4) are frozen",
                      "leave --quantize out, or name an adapter with --adapter: the gradients are then its own");
  refuse_within_model(base::output_file(options.output), opened);
  const auto input = read_input(options.input, *opened.model);
  if (options.grads && !input.labels.defined())
    throw ConfigError(format("--grads needs a loss, and {} holds no labels", options.input),
                      "add labels: int64, as input_ids, or one a picture");
  const at::AutoGradMode with_gradients(options.grads);
  nn::Pass pass;
  if (input.mask.defined()) pass.key_mask = pass.token_mask = input.mask.to(device);
  const auto given = input.ids.defined() ? input.ids.to(device) : input.pixels.to(device, type_of(options.precision));
  const auto logits = opened.model->logits(given, pass).to(at::kFloat);
  std::vector<checkpoint::NamedTensor> tensors = {{"logits", logits.detach()}};
  std::string said = format("logits {}", shape_text(logits));
  if (input.labels.defined()) {
    const auto labels = input.labels.to(device);
    if (const auto counted = input.ids.defined() ? labels.narrow(1, 1, labels.size(1) - 1) : labels;
        counted.ge(0).sum().item<int64_t>() == 0)
      throw ConfigError(format("the labels of {} count no token: there is no loss", options.input),
                        "-100 leaves one out, and the first of a text is never counted; or give no labels");
    auto loss = input.ids.defined() ? shifted_loss(logits, labels) : kernels::cross_entropy(logits, labels);
    if (pass.auxiliary_loss.defined()) loss = loss.add(pass.auxiliary_loss);
    tensors.push_back({"loss", loss.detach()});
    said += format(", loss {:.6f}", loss.item<double>());
    if (options.grads) loss.backward();
  }
  if (options.grads) {
    const auto& names = opened.model->adapters().names();
    const auto gradients = gradients_of(*opened.model, names.empty() ? "" : names.front());
    tensors.insert(tensors.end(), gradients.begin(), gradients.end());
    said += format(", {} gradients", gradients.size());
  }
  checkpoint::replace_safetensors(base::real_files(), options.output, tensors);
  std::printf("%s: %s\n", options.output.c_str(), said.c_str());
  return 0;
}

void add_probe_command(Commands& commands) {
  const auto add_flags = [](CLI::App* probe, ProbeOptions& options) {
    probe->add_option("MODEL", options.model, kModelMeaning)->required();
    probe
        ->add_option(
            "--input", options.input,
            "safetensors: input_ids (int64, batch x length) or pixel_values (fp32, batch x channels x height x "
            "width); optional attention_mask, labels")
        ->required();
    probe->add_option("--output", options.output, "safetensors: logits; with labels also loss (fp32)")->required();
    probe->add_option("--adapter", options.adapter, "a PEFT folder; --grads then gives its gradients, under its keys")
        ->check(not_empty());
    probe->add_flag("--grads", options.grads, "also the gradient of every parameter, under its Hugging Face name");
    probe->add_option("--device", options.device, "cpu, cuda or auto (default cpu)")
        ->check(one_of({"auto", "cpu", "cuda"}));
    probe->add_option("--precision", options.precision, "fp32 or bf16 (default fp32)")->check(one_of({"fp32", "bf16"}));
    add_quantize_flag(probe, options.quantize);
    probe->footer("\nExample:\n  hyperion probe ./gpt2 --input in.safetensors --output out.safetensors --grads");
  };
  commands.add<ProbeOptions>("probe",
                             "run a model on given token ids or images, to compare it with the same model elsewhere",
                             add_flags, probe_command);
}

}  // namespace hyperion::cli

// What a user runs to see that a model here is the model there.
#include <ATen/core/grad_mode.h>

#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/cli/commands.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/kernels/device.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

constexpr int64_t kIgnored = -100;

struct ProbeInput {
  at::Tensor ids, mask, labels;  // mask: bool; mask and labels may be undefined
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

void check_range(const at::Tensor& ids, const std::string& name, int64_t vocabulary, bool may_ignore,
                 const std::string& place) {
  const auto* values = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if ((values[i] >= 0 && values[i] < vocabulary) || (may_ignore && values[i] == kIgnored)) continue;
    throw ConfigError(format("{}: {}[{}, {}] = {} is not a token id of this model, 0 to {}{}", place, name,
                             i / ids.size(1), i % ids.size(1), values[i], vocabulary - 1,
                             may_ignore ? ", nor -100" : ""));
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

ProbeInput read_input(const std::string& path, int64_t vocabulary) {
  const checkpoint::SafetensorsFile file{base::Path(path)};
  for (const auto& name : file.names())
    if (name != "input_ids" && name != "attention_mask" && name != "labels")
      throw ConfigError(format("{}: tensor \"{}\" is not known", path, name),
                        "give input_ids, and if wanted attention_mask and labels");
  if (!file.has("input_ids"))
    throw ConfigError(format("{} holds no input_ids", path), "give token ids as an int64 tensor [batch, length]");
  ProbeInput input;
  input.ids = read_ids(file, "input_ids", path);
  if (input.ids.dim() != 2 || input.ids.numel() == 0)
    throw ConfigError(format("{}: input_ids is {}, not [batch, length]", path, shape_text(input.ids)));
  check_range(input.ids, "input_ids", vocabulary, false, path);
  if (file.has("attention_mask")) input.mask = read_mask(file, path);
  if (file.has("labels")) input.labels = read_ids(file, "labels", path);
  for (const auto& [name, tensor] : {std::pair("attention_mask", input.mask), std::pair("labels", input.labels)})
    if (tensor.defined() && tensor.sizes() != input.ids.sizes())
      throw ConfigError(
          format("{}: {} is {}, and input_ids is {}", path, name, shape_text(tensor), shape_text(input.ids)));
  if (input.labels.defined()) check_range(input.labels, "labels", vocabulary, true, path);
  return input;
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

void write_output(const std::string& path, const std::vector<checkpoint::NamedTensor>& tensors) {
  auto& files = base::real_files();
  const base::Path partial = base::partial_path(path);
  try {
    checkpoint::write_safetensors(files, partial, tensors);
    files.rename(partial, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw;
  }
}

}  // namespace

int probe_command(const ProbeOptions& options) {
  std::error_code missing;
  if (std::filesystem::equivalent(options.input, options.output, missing))
    throw ConfigError(format("--output {} is the input itself", options.output), "name another file");
  const auto device = kernels::open_device(options.device);
  auto opened = interop::open_model(base::real_files(), options.model, device, type_of(options.precision));
  const auto input = read_input(options.input, opened.model->shape(1).vocabulary);
  if (options.grads && !input.labels.defined())
    throw ConfigError(format("--grads needs a loss, and {} holds no labels", options.input),
                      "add labels: int64, as input_ids");
  const at::AutoGradMode with_gradients(options.grads);
  nn::Pass pass;
  if (input.mask.defined()) pass.key_mask = input.mask.to(device);
  const auto logits = opened.model->logits(input.ids.to(device), pass).to(at::kFloat);
  std::vector<checkpoint::NamedTensor> tensors = {{"logits", logits.detach()}};
  std::string said = format("logits {}", shape_text(logits));
  if (input.labels.defined()) {
    const auto loss = shifted_loss(logits, input.labels.to(device));
    tensors.push_back({"loss", loss.detach()});
    said += format(", loss {:.6f}", loss.item<double>());
    if (options.grads) loss.backward();
  }
  if (options.grads) {
    for (const auto& parameter : opened.model->parameters())
      tensors.push_back({parameter.name, parameter.tensor.grad().to(at::kFloat)});
    said += format(", gradients of {} parameters", tensors.size() - 2);
  }
  write_output(options.output, tensors);
  std::printf("%s: %s\n", options.output.c_str(), said.c_str());
  return 0;
}

}  // namespace hyperion::cli

#include "hyperion/interop/open_model.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/hub/cache.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/interop/adapter_classes.h"
#include "hyperion/interop/base_weights.h"
#include "hyperion/interop/generation_config.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/peft.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Path;

void copy_weights(models::Model& model, const checkpoint::OpenedCheckpoint& loaded, at::Device device,
                  std::optional<at::ScalarType> type) {
  at::NoGradGuard no_grad;
  auto parameters = model.parameters();
  model.to(device, type.value_or(loaded.tensor("model." + parameters.front().name).scalar_type()));
  const auto fill = [&](const std::string& name, const at::Tensor& tensor) {
    const at::Tensor& saved = loaded.tensor("model." + name);
    if (saved.sizes() != tensor.sizes())
      throw base::CorruptError(format("{}: {} has another shape than the model", loaded.path.string(), name));
    tensor.copy_(saved);
  };
  for (const auto& parameter : model.parameters()) fill(parameter.name, parameter.tensor);
  for (const auto& buffer : model.buffers()) fill(buffer.name, buffer.tensor);
}

// Without a tokenizer, 256 ids can only be bytes.
OpenedModel open_folder(base::FileSystem& files, const Path& folder, at::Device device,
                        std::optional<at::ScalarType> type, Head head = Head::needed) {
  OpenedModel opened;
  auto [model, config, missing] = open_hugging_face(files, folder, device, type, head);
  opened.missing = std::move(missing);
  opened.bytes = model->input() == models::Input::tokens && model->shape(1).vocabulary == 256 &&
                 !files.exists(folder / "tokenizer.json");
  opened.model = std::move(model);
  opened.config = std::move(config);
  opened.folder = folder;
  return opened;
}

// Tokens that end a text, where the checkpoint says so.
std::vector<int64_t> ends_in(const base::Json& state) {
  const auto found = state.find("end_token");
  return found != state.end() && found->is_number_integer() ? std::vector{found->get<int64_t>()}
                                                            : std::vector<int64_t>();
}

void copy_adapter(models::Model& model, const checkpoint::OpenedCheckpoint& loaded, bool in_own_type) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    if (!parameter.tensor.requires_grad()) continue;
    const at::Tensor& saved = loaded.tensor("model." + parameter.name);
    if (saved.sizes() != parameter.tensor.sizes())
      throw base::CorruptError(format("{}: {} has another shape than the model", loaded.path.string(), parameter.name));
    if (in_own_type)
      model.adapters().set_in_own_type(parameter.tensor, saved);
    else
      parameter.tensor.copy_(saved);
  }
}

}  // namespace

Path image_processor(base::FileSystem& files, const OpenedModel& opened) {
  const Path path = opened.folder / images::kProcessorFile;
  return !opened.folder.empty() && files.exists(path) ? path : Path();
}

namespace {

// Empty where there is none.
std::string digest_in(const base::Json& state, const Path& place) {
  const auto found = state.find("base_digest");
  if (found != state.end() && !found->is_string())
    throw base::CorruptError(format("{} has a base_digest that is not text", place.string()));
  return found == state.end() ? "" : found->get<std::string>();
}

// Whether a run was trained beside 4-bit weights; of older checkpoints its settings tell.
bool was_quantized(base::FileSystem& files, const base::Json& state, const Path& run) {
  if (const auto known = state.find("settings"); known != state.end() && known->is_object())
    return known->value("model.quantize", base::Json("none")) == "nf4";
  if (run.empty()) return false;
  const std::string settings = base::read_description(files, run / "config.resolved.toml");
  return settings.find("\nquantize = \"nf4\"") != settings.npos;
}

// On the CPU, where training quantizes too: the same bits come of it.
void quantize_opened(OpenedModel& opened) {
  opened.model->quantize();
  opened.quantized = true;
}

void move_opened(OpenedModel& opened, at::Device device, at::ScalarType type) {
  if (!device.is_cpu()) opened.model->to(device, type);
}

// The type an adapter was trained in is that of the model beside it, but for the few layers that stay wide.
at::ScalarType adapter_type(const checkpoint::OpenedCheckpoint& loaded) {
  constexpr std::string_view kOwn = "model.";
  for (const auto& [name, entry] : loaded.tensors)
    if (name.starts_with(kOwn) && entry.type != at::kFloat) return entry.type;
  return at::kFloat;
}

void find_processor(base::FileSystem& files, OpenedModel& opened) {
  if (!opened.run.empty() && files.exists(opened.run / kRunProcessor)) opened.folder = opened.run / kRunProcessor;
}

// A run or an adapter that learned tokens its base does not have, or another end of texts, has a tokenizer of its own,
// in `own`; else the base's folder says more.
void take_tokenizer(base::FileSystem& files, const Path& own, OpenedModel& opened) {
  const auto text = [&](const Path& folder) {
    const Path path = folder / "tokenizer.json";
    return files.exists(path) ? base::read_description(files, path) : std::string();
  };
  if (text(own).empty() || (text(own) == text(opened.folder) && ends_likewise(own, opened.folder))) return;
  if (opened.ends.empty() && !opened.folder.empty()) opened.ends = end_tokens(opened.folder);  // unless `own` says more
  opened.base_folder = std::exchange(opened.folder, own);
  opened.bytes = false;
}

OpenedModel open_adapted(base::FileSystem& files, const checkpoint::OpenedCheckpoint& loaded, const base::Json& state,
                         const Path& run, at::Device device, std::optional<at::ScalarType> type, WeightForm form) {
  const auto adapter = parse_adapter_config(state["adapter"].dump(), loaded.path.string());
  const std::string base =
      find_base(files, run, adapter.base_model, digest_in(state, loaded.path), loaded.path.string());
  const bool was_packed = was_quantized(files, state, run);
  const bool packed = form == WeightForm::nf4 || (form == WeightForm::as_trained && was_packed);
  const bool as_kept = !type && form == WeightForm::as_kept;
  if (!type && !as_kept) type = adapter_type(loaded);
  const Fit fit{config_of(loaded)};
  auto adapted = open_base(files, base, packed ? at::kCPU : device, type, &fit);
  if (packed) quantize_opened(adapted);
  adapted.model->adapters().add(kRunAdapter, adapter.config, /*seed=*/0);
  copy_adapter(*adapted.model, loaded, as_kept);
  adapted.missing.clear();
  if (packed) move_opened(adapted, device, *type);
  adapted.run = run, adapted.step = loaded.step, adapted.checkpoint = loaded.path;
  adapted.base_model = base;
  adapted.trained_quantized = was_packed;
  adapted.as_kept = as_kept;
  if (!run.empty()) take_tokenizer(files, run / kRunTokenizer, adapted);
  find_processor(files, adapted);
  return adapted;
}

}  // namespace

OpenedModel open_model(base::FileSystem& files, const std::string& named, at::Device device,
                       std::optional<at::ScalarType> type, WeightForm form) {
  const std::string argument = find_model(files, named);
  const bool packs = form == WeightForm::nf4;
  const at::Device first = packs ? at::kCPU : device;
  if (names_folder(files, argument)) {
    auto opened = open_folder(files, argument, first, type);
    const auto kept = opened.model->parameters().front().tensor.scalar_type();
    if (packs) quantize_opened(opened), move_opened(opened, device, kept);
    return opened;
  }
  OpenedModel opened;
  const auto loaded = find_checkpoint(files, argument, opened.run);
  const auto state = base::parse_json(loaded.state, loaded.path.string());
  if (state.contains("adapter")) {
    auto adapted = open_adapted(files, loaded, state, opened.run, device, type, form);
    if (const auto ends = ends_in(state); !ends.empty()) adapted.ends = ends;
    return adapted;
  }
  opened.config = config_of(loaded);
  opened.model = models::make_model(opened.config, loaded.path.string());
  copy_weights(*opened.model, loaded, first, type);
  const auto kept = opened.model->parameters().front().tensor.scalar_type();
  if (packs) quantize_opened(opened), move_opened(opened, device, kept);
  opened.ends = ends_in(state);
  opened.step = loaded.step;
  opened.checkpoint = loaded.path;
  if (!opened.run.empty() && files.exists(opened.run / kRunTokenizer)) {
    opened.folder = opened.run / kRunTokenizer;
    opened.bytes = false;
  }
  find_processor(files, opened);
  return opened;
}

OpenedModel open_beneath(base::FileSystem& files, const std::string& named, at::Device device,
                         std::optional<at::ScalarType> type, WeightForm form) {
  const std::string argument = find_model(files, named);
  const bool packs = form == WeightForm::nf4;
  const at::Device first = packs ? at::kCPU : device;
  const WeightForm merged_in = form == WeightForm::as_kept ? form : WeightForm::whole;
  auto opened = names_folder(files, argument) ? open_folder(files, argument, first, type, Head::brought)
                                              : open_model(files, argument, first, type, merged_in);
  if (auto& own = opened.model->adapters(); !own.empty()) own.merge(own.names().front());
  opened.base_model.clear();
  opened.as_kept = !type && form == WeightForm::as_kept;
  const auto kept = opened.model->parameters().front().tensor.scalar_type();
  if (packs) quantize_opened(opened), move_opened(opened, device, kept);
  return opened;
}

namespace {

void expect_head(const Path& folder, OpenedModel& opened, const std::string& name) {
  for (const auto& brought : opened.model->adapters().parameters(name)) opened.missing.erase(brought.name);
  if (opened.missing.empty()) return;
  throw base::ConfigError(format("{} has no head ({}), and adapter {} brings none", opened.folder.string(),
                                 *opened.missing.begin(), folder.string()),
                          "train one, with model.from and images");
}

// Classes and pixels are those of the model, not of one of its adapters.
void refuse_other_images(base::FileSystem& files, const Path& folder, const OpenedModel& opened) {
  if (opened.model->input() != models::Input::images) return;
  const auto refuse = [&](const char* what) {
    throw base::ConfigError(format("adapter {} was trained on other {} than the one before it", folder.string(), what),
                            "use one of them at a time");
  };
  const auto processing = [&](const Path& path) {
    return images::parse_processor(base::read_description(files, path), path.string());
  };
  const Path own = image_processor(files, opened), its = folder / images::kProcessorFile;
  if (files.exists(its) && (own.empty() || processing(own) != processing(its))) refuse("pixels");
  const int64_t classes = opened.model->shape(1).vocabulary;
  const auto names = adapter_classes(files, folder, classes);
  const auto known = base::parse_json(opened.model->config_json(), "the model");
  auto named = known;
  if (!names.empty()) models::write_classes(named, classes, names);
  if (named != known) refuse("classes");
}

}  // namespace

void add_adapter(base::FileSystem& files, const Path& place, OpenedModel& opened, const std::string& name) {
  const Path folder = hub::locate(files, place.string());
  opened.others.push_back(folder);
  if (!opened.model->adapters().empty()) {
    read_adapter(files, place, *opened.model, name, opened.as_kept);
    return refuse_other_images(files, folder, opened);
  }
  const auto tokens = [&] {
    return opened.model->input() == models::Input::tokens ? opened.model->shape(1).vocabulary : 0;
  };
  const int64_t before = tokens();
  fit_to_adapter(files, place, opened.model, opened.config);
  read_adapter(files, place, *opened.model, name, opened.as_kept);
  expect_head(folder, opened, name);
  opened.others.push_back(opened.folder);
  if (opened.model->input() == models::Input::tokens)
    take_tokenizer(files, folder, opened);
  else if (files.exists(folder / images::kProcessorFile))
    opened.folder = folder;
  if (tokens() > before && !files.exists(folder / "tokenizer.json"))
    base::log_warn(
        format("adapter {} brings the token ids {} to {}, and its folder no tokenizer.json that has them: "
               "they are neither read nor shown as text; copy there the one it was trained with",
               folder.string(), before, tokens() - 1));
}

ModelOutline outline_model(base::FileSystem& files, const std::string& named, Head head) {
  const std::string argument = find_model(files, named);
  if (names_folder(files, argument)) {
    return outline_hugging_face(files, argument, head);
  }
  Path run;
  const auto loaded = std::make_shared<const checkpoint::OpenedCheckpoint>(find_checkpoint(files, argument, run));
  if (base::parse_json(loaded->state, loaded->path.string()).contains("adapter")) return {};
  ModelOutline outline;
  {
    const nn::MetaScope only_names;
    outline.model = models::make_model(config_of(*loaded), loaded->path.string());
  }
  const auto check = [&](const std::string& name, const at::Tensor& tensor) {
    if (at::IntArrayRef(loaded->shape("model." + name)) != tensor.sizes())
      throw base::CorruptError(format("{}: {} has another shape than the model", loaded->path.string(), name));
  };
  at::NoGradGuard no_grad;
  for (const auto& parameter : outline.model->parameters()) check(parameter.name, parameter.tensor);
  for (const auto& buffer : outline.model->buffers()) {
    check(buffer.name, buffer.tensor);
    at::Tensor(buffer.tensor).copy_(loaded->tensor("model." + buffer.name));
  }
  outline.values = [loaded](const std::string& name, int64_t begin, const at::Tensor& out) {
    loaded->copy_stretch("model." + name, begin, out);
  };
  return outline;
}

OpenedModel open_base(base::FileSystem& files, const std::string& named, at::Device device,
                      std::optional<at::ScalarType> type, const Fit* fit) {
  const std::string argument = find_model(files, named);
  auto opened = fit != nullptr && names_folder(files, argument)
                    ? open_folder(files, argument, device, type, fit->head)
                    : open_model(files, argument, device, type, WeightForm::as_kept);
  auto& adapters = opened.model->adapters();
  if (!adapters.empty()) adapters.merge(adapters.names().front());
  if (fit == nullptr) return opened;
  opened.refitted = refit(opened.model, *fit, opened.missing);
  opened.config = fit->config;
  return opened;
}

}  // namespace hyperion::interop

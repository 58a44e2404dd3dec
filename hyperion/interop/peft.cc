#include "hyperion/interop/peft.h"
#include "hyperion/interop/new_folder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/hub/cache.h"
#include "hyperion/interop/adapter_classes.h"
#include "hyperion/interop/generation_config.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/refit.h"
#include "hyperion/interop/weight_files.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/module.h"

namespace hyperion::interop {
namespace {

using base::CorruptError;
using base::format;
using base::Path;

constexpr const char* kWeights = "adapter_model.safetensors";

// Beside tokens that are trained PEFT keeps the whole table where that has grown, and of a tied output all of it again.
// True where that is what it is: the rows of other tokens are the model's.
bool repeats_tokens(const checkpoint::SafetensorsFile& file, const std::string& key, models::Model& model) {
  constexpr std::string_view kRows = ".token_adapter.", kTable = ".token_adapter.base_layer.weight";
  if (key.find(kRows) == key.npos) return false;
  const auto parameters = model.parameters();
  auto table = std::find_if(parameters.begin(), parameters.end(), [&](const models::Parameter& parameter) {
    return peft_key(parameter.name) == key.substr(0, key.find(kRows)) + ".weight";
  });
  if (table == parameters.end() && !key.starts_with(peft_key("lm_head."))) return false;
  if (table == parameters.end()) table = parameters.begin();  // the output is tied to it
  const std::string rows =
      peft_key(table->name.substr(0, table->name.rfind('.'))) + std::string(kRows) + "trainable_tokens_delta";
  if (!key.ends_with(kTable)) return file.has(rows) && file.tensor(key).equal(file.tensor(rows));
  if (file.shape(key) != table->tensor.sizes()) return false;
  const auto same = file.tensor(key).to(table->tensor.scalar_type()).eq(table->tensor.detach().to(at::kCPU)).all(1);
  const int64_t trained = file.has(rows) ? file.shape(rows).at(0) : 0;
  return same.sum().item<int64_t>() >= same.size(0) - trained;
}

// Of a table that has grown PEFT keeps a module that it saves twice, and the base's own, which is not used.
bool repeats_saved(const checkpoint::SafetensorsFile& file, const std::string& key) {
  constexpr std::string_view kTrained = ".modules_to_save", kUnused = ".original_module";
  for (const auto part : {kTrained, kUnused}) {
    const size_t at = key.find(part);
    if (at == key.npos) continue;
    const std::string saved = key.substr(0, at) + key.substr(at + part.size());
    return file.has(saved) && (part == kUnused || file.tensor(key).equal(file.tensor(saved)));
  }
  return false;
}

// The table of tokens, where the output is tied to it; else undefined.
models::Parameter tied_table(models::Model& model) {
  const auto parameters = model.parameters();
  const bool own = std::any_of(parameters.begin(), parameters.end(), [](const models::Parameter& parameter) {
    return nn::is_output(parameter.name.substr(0, parameter.name.rfind('.')));
  });
  return own || model.input() != models::Input::tokens ? models::Parameter{} : parameters.front();
}

constexpr const char* kTiedOutput = "lm_head";
std::string tied_key() { return peft_key(std::string(kTiedOutput) + ".weight"); }

// PEFT trains copies of the modules it saves: of a table alone, the output stays the base's, which is no tied model any
// more. Trained tied, both are written.
bool saves_tied_table(models::Model& model, const std::string& name) {
  const auto table = tied_table(model);
  if (!table.tensor.defined()) return false;
  return nn::saves(model.adapters().config(name).saved, table.name.substr(0, table.name.rfind('.')));
}

void refuse_untied(const checkpoint::SafetensorsFile& file, models::Model& model, const std::string& name,
                   const Path& folder) {
  if (!saves_tied_table(model, name)) return;
  const auto table = tied_table(model);
  if (file.has(tied_key()) && file.has(peft_key(table.name)) && file.shape(tied_key()) == table.tensor.sizes() &&
      file.tensor(tied_key()).equal(file.tensor(peft_key(table.name))))
    return;
  throw CorruptError(
      format("adapter {} has trained {} and leaves the output as the base's, to which this model's is tied",
             folder.string(), table.name),
      format("train it with modules_to_save of both, the table and {}, with the same weights; or merge it with PEFT",
             kTiedOutput));
}

// Beside an adapter of the output PEFT keeps the base's own weight, as <path>.base_layer.weight: fine where it is that.
std::string judge_extra(const checkpoint::SafetensorsFile& file, const std::string& key, models::Model& model) {
  if (repeats_tokens(file, key, model) || repeats_saved(file, key)) return "";
  if (key == tied_key() && tied_table(model).tensor.defined() && file.has(peft_key(tied_table(model).name)))
    return "";  // refuse_untied has compared them
  constexpr std::string_view kLayer = ".base_layer";
  std::string name = key;
  if (const size_t layer = name.find(kLayer); layer != name.npos) name.erase(layer, kLayer.size());
  for (const auto& parameter : model.parameters()) {
    const at::Tensor& tensor = parameter.tensor;
    if (peft_key(parameter.name) != name || file.shape(key) != tensor.sizes()) continue;
    if (file.tensor(key).to(tensor.scalar_type()).equal(tensor.detach().to(at::kCPU))) return "";
    return format("\n  wrong: {} is not {} of this model", key, parameter.name);
  }
  return format("\n  extra: {} {}", key, shape_text(file.shape(key)));
}

// All that does not fit, a line each.
std::string differences(const checkpoint::SafetensorsFile& file, const std::vector<nn::Adapters::Entry>& parameters,
                        models::Model& model) {
  std::string wrong, missing, extra;
  std::set<std::string> known;
  for (const auto& [name, tensor] : parameters) {
    const std::string key = *known.insert(peft_key(name)).first;
    if (!file.has(key)) {
      missing += format("\n  missing: {} {}", key, shape_text(tensor.sizes()));
    } else if (file.shape(key) != tensor.sizes()) {
      wrong += format("\n  wrong: {} is {}, and the adapter's is {}", key, shape_text(file.shape(key)),
                      shape_text(tensor.sizes()));
    } else if (!is_weight_type(file.dtype(key))) {
      wrong += format("\n  wrong: {} holds {}, not fp32, bf16 or fp16", key, c10::toString(file.dtype(key)));
    }
  }
  for (const auto& key : file.names())
    if (!known.contains(key)) extra += judge_extra(file, key, model);
  return wrong + missing + extra;
}

// A layer that the adapter changes and the model has not, where it has none of them; else empty.
std::string strange_layer(const Path& folder, models::Model& model) {
  constexpr std::string_view kSide = ".lora_A.weight";
  if (model.tree() == nullptr) return "";
  std::set<std::string> known;
  model.tree()->visit([&](const std::string& path, nn::Module&) { known.insert(peft_key(path)); });
  std::string strange;
  const checkpoint::SafetensorsFile file(folder / kWeights);
  for (const std::string& key : file.names()) {
    if (!key.ends_with(kSide)) continue;
    const std::string layer = key.substr(0, key.size() - kSide.size());
    if (known.contains(layer)) return "";
    strange = layer.substr(std::min(peft_key("").size(), layer.size()));
  }
  return strange;
}

// Of the head that the adapter brings, where the model's own has others; else 0.
int64_t classes_of_head(const Path& folder, models::Model& model) {
  const checkpoint::SafetensorsFile file(folder / kWeights);
  for (const auto& parameter : model.parameters()) {
    const at::Tensor& tensor = parameter.tensor;
    const std::string key = peft_key(parameter.name);
    if (model.input() != models::Input::images || !nn::is_output(parameter.name) || tensor.dim() != 2 || !file.has(key))
      continue;
    const auto shape = file.shape(key);
    if (shape.size() == 2 && shape[0] != tensor.size(0)) return shape[0];
  }
  return 0;
}

// Of a table of tokens that the adapter brings whole, where it has more than the model's; else 0.
int64_t tokens_of_table(const Path& folder, models::Model& model) {
  if (model.input() != models::Input::tokens) return 0;
  const checkpoint::SafetensorsFile file(folder / kWeights);
  const int64_t before = model.shape(1).vocabulary;
  for (const auto& parameter : model.parameters()) {
    const at::Tensor& tensor = parameter.tensor;
    const std::string key = peft_key(parameter.name);
    if (tensor.dim() != 2 || tensor.size(0) != before || !file.has(key)) continue;
    const auto shape = file.shape(key);
    if (shape.size() == 2 && shape[1] == tensor.size(1) && shape[0] > before) return shape[0];
  }
  return 0;
}

void refuse_without_adapter(base::FileSystem& files, const Path& folder) {
  if (files.exists(folder / kWeights)) return;
  for (const Path& path : files.list(folder))
    if (is_pickle(path))
      throw CorruptError(format("{} holds the adapter in {}, a pickle: a program, not data, and never read here",
                                folder.string(), path.filename().string()),
                         "load it with PEFT where you trust it, and save_pretrained it again");
  throw CorruptError(format("{} holds no {}", folder.string(), kWeights));
}

}  // namespace

void fit_to_adapter(base::FileSystem& files, const Path& place, std::unique_ptr<models::Model>& model,
                    std::string& config) {
  const Path folder = hub::locate(files, place.string());
  const Path path = folder / kAdapterConfig;
  if (!files.exists(path) || !files.exists(folder / kWeights)) return;  // read_adapter says so
  const auto adapter = parse_adapter_config(base::read_description(files, path), path.string()).config;
  base::Json wanted = base::parse_json(config, "the model");
  const base::Json before = wanted;
  if (wanted.contains("vocab_size"))
    for (const auto& [module, tokens] : adapter.token_rows)
      for (const int64_t token : tokens)
        if (token >= wanted["vocab_size"].get<int64_t>()) wanted["vocab_size"] = token + 1;
  if (const int64_t tokens = adapter.saved.empty() ? 0 : tokens_of_table(folder, *model); tokens > 0)
    wanted["vocab_size"] = tokens;
  if (model->input() == models::Input::images) {
    if (const auto layer = strange_layer(folder, *model); !layer.empty())
      throw base::ConfigError(format("adapter {} is of another kind of model: this one, {}, has no layer {}",
                                     folder.string(), wanted.value("model_type", "of no type"), layer),
                              "name the model it was trained on");
    const int64_t others = adapter.saved.empty() ? 0 : classes_of_head(folder, *model);
    const int64_t classes = others > 0 ? others : model->shape(1).vocabulary;
    const auto names = adapter_classes(files, folder, classes);
    if (others > 0) wanted.erase("num_labels");
    if (others > 0 || !names.empty()) models::write_classes(wanted, classes, names);
  }
  if (wanted == before) return;
  refit(model, {models::make_config(wanted.dump(), folder.string())});
  config = wanted.dump();
}

namespace {

// The last part of its path.
std::string table_of_tokens(models::Model& model) {
  const std::string name = model.parameters().front().name, path = name.substr(0, name.rfind('.'));
  return path.substr(path.rfind('.') + 1);
}

}  // namespace

std::string peft_key(const std::string& parameter) { return "base_model.model." + parameter; }

void read_adapter(base::FileSystem& files, const Path& place, models::Model& model, const std::string& name,
                  bool in_own_type) {
  const base::OperationScope scope("reading an adapter");
  const Path folder = hub::locate(files, place.string());
  const Path path = folder / kAdapterConfig;
  if (!files.exists(path))
    throw base::ConfigError(format("{} is no adapter folder: it holds no {}", folder.string(), kAdapterConfig),
                            "give a folder that PEFT's save_pretrained wrote");
  auto [config, base_model, tied] = parse_adapter_config(base::read_description(files, path), path.string());
  config.routed = false;
  for (auto& [table, tokens] : config.token_rows)
    if (table.empty()) table = table_of_tokens(model);
  refuse_without_adapter(files, folder);
  const checkpoint::SafetensorsFile file(folder / kWeights);
  try {
    model.adapters().add(name, config, /*seed=*/0);
  } catch (const base::ConfigError& error) {
    throw base::ConfigError(format("adapter {}: {}", folder.string(), error.what()), error.hint());
  }
  refuse_untied(file, model, name, folder);
  if (tied && tied_table(model).tensor.defined() && !saves_tied_table(model, name))  // saved, both were compared
    throw CorruptError(
        format("{}: ensure_weight_tying = true is read only where the table itself is saved", path.string()),
        "merge it into its base with PEFT");
  auto parameters = model.adapters().parameters(name);
  if (const auto text = differences(file, parameters, model); !text.empty())
    throw CorruptError(format("{}: the tensors are not those of {} on this model:{}", (folder / kWeights).string(),
                              kAdapterConfig, text));
  const at::NoGradGuard no_grad;
  for (auto& [parameter, tensor] : parameters) {
    const at::Tensor value = file.tensor(peft_key(parameter));
    if (in_own_type)
      model.adapters().set_in_own_type(tensor, value);
    else
      tensor.copy_(value);
  }
}

namespace {

// transformers holds the experts of a layer in two tensors, and its routers are no linear layers: PEFT would drop such
// adapters without a word, or refuse the whole.
void refuse_experts(const std::string& parameter) {
  if (nn::is_routed(parameter))
    throw base::ConfigError(format("PEFT has no adapters of experts and routers, such as {}", parameter),
                            "export the merged model, without --as-adapter; or train with lora.targets = "
                            "\"q_proj,k_proj,v_proj,o_proj\"");
}

}  // namespace

void write_adapter(base::FileSystem& files, models::Model& model, const Path& to, const AdapterWith& with) {
  const base::OperationScope scope("writing an adapter");
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& [parameter, tensor] : model.adapters().parameters(with.name)) {
    refuse_experts(parameter);
    tensors.push_back({peft_key(parameter), tensor});
  }
  if (saves_tied_table(model, with.name)) tensors.push_back({tied_key(), tied_table(model).tensor.detach().clone()});
  write_new_folder(files, to, [&](const Path& partial) {
    checkpoint::write_safetensors(files, partial / kWeights, tensors, {{"format", "pt"}});
    const std::string also = saves_tied_table(model, with.name) ? kTiedOutput : "";
    base::write_atomically(files, partial / kAdapterConfig,
                           adapter_config_text(model, with.name, with.base_model, also));
    if (!with.inputs.empty()) copy_inputs(files, with.inputs, partial);
    if (!with.base_folder.empty() && !ends_likewise(with.inputs, with.base_folder))
      base::write_atomically(files, partial / kGenerationConfig,
                             generation_config(files, with.base_folder, with.inputs));
    if (model.input() == models::Input::images) write_adapter_classes(files, partial, model.config_json());
  });
}

}  // namespace hyperion::interop

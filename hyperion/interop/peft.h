// PEFT's adapter folders, in and out: adapter_config.json and adapter_model.safetensors, with keys
// base_model.model.<path>.lora_A.weight. No pickle is ever read.
#pragma once
#include <memory>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/models/model.h"

namespace hyperion::interop {

constexpr const char* kAdapterConfig = "adapter_config.json";

// PEFT's key of <path>.lora_A.weight.
std::string peft_key(const std::string& parameter);

struct AdapterConfig {
  nn::LoraConfig config;   // token_rows of no name are those of the input's table
  std::string base_model;  // what it belongs to; may be empty
  bool tied = false;       // what it trains of a tied table is trained of the output too (ensure_weight_tying)
};

// An adapter_config.json. Throws CorruptError, by name, on another kind than LoRA and on settings that make
// it another function than the one here, each starting with `place`: DoRA, biases and the like.
AdapterConfig parse_adapter_config(const std::string& text, const std::string& place);

// The same as text, to be written. `also_saved`: a module saved beside those of the config; may be empty.
std::string adapter_config_text(models::Model& model, const std::string& name, const std::string& base_model,
                                const std::string& also_saved = {});

// Gives the model the classes, with their names, or token ids that such an adapter brings; `config` is its config.json,
// likewise.
void fit_to_adapter(base::FileSystem& files, const base::Path& place, std::unique_ptr<models::Model>& model,
                    std::string& config);

// Adds the adapter of a folder, or of that name in Hugging Face's cache, to the model under `name`. All wrong, missing
// and extra tensors are listed in one CorruptError; the model is then not to be used. `in_own_type`: in the file's
// type, whatever the model's (nn::Adapters::set_in_own_type).
void read_adapter(base::FileSystem& files, const base::Path& place, models::Model& model, const std::string& name,
                  bool in_own_type = false);

struct AdapterWith {
  std::string name;             // among the model's
  std::string base_model;       // what it belongs to
  base::Path inputs = {};       // whose tokenizer or image processor goes along, which may be another than the base's
  base::Path base_folder = {};  // generation_config.json goes along where texts end other than in it; empty: never
};
// Writes a folder that PEFT loads, with the names of classes (adapter_classes.h). Written beside and renamed; `to` must
// not exist (ConfigError).
void write_adapter(base::FileSystem& files, models::Model& model, const base::Path& to, const AdapterWith& with);

}  // namespace hyperion::interop

// Hugging Face model folders, in and out: config.json, and model.safetensors or its shards with
// model.safetensors.index.json. No pickle is ever read.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/models/model.h"

namespace hyperion::interop {

// True for a folder with a config.json.
bool is_hugging_face_folder(base::FileSystem& files, const base::Path& path);

// Throws ConfigError that says how to convert where the path itself is a pickle: .bin, .pt, .pth, .ckpt, .pkl.
void refuse_pickle(const base::Path& path);

struct HuggingFaceModel {
  std::unique_ptr<models::Model> model;
  std::string config;                  // the text of config.json
  std::set<std::string> missing = {};  // parameters without values
};

// A model of images may lack its head: one to train is given a new one, which is told; or an adapter or a checkpoint
// brings it.
enum class Head { needed, may_be_missing, brought };

// The model with its weights on `device`, in `type` or else in the type of the files. Weights go from the mapped files
// straight into parameters and buffers. All wrong, missing and extra tensors are listed in one CorruptError; buffers
// older files hold, a missing "transformer." or "model." before every name, a tied output written twice and the pooler
// of a model without a head are fine.
HuggingFaceModel open_hugging_face(base::FileSystem& files, const base::Path& folder, at::Device device,
                                   std::optional<at::ScalarType> type = {}, Head head = Head::needed);

// The same with parameters without memory (nn/meta.h), whose values are read from the mapped files when asked
// for; buffers have theirs.
struct ModelOutline {
  std::unique_ptr<models::Model> model;
  models::Values values;
  std::set<std::string> missing = {};  // what it has no values of
};
ModelOutline outline_hugging_face(base::FileSystem& files, const base::Path& folder, Head head = Head::needed);

// The files of a tokenizer, its chat template among them, and of an image processor, as far as they are there.
void copy_inputs(base::FileSystem& files, const base::Path& source, const base::Path& to);

// Why a model of this config.json cannot be exported; empty where it can be.
std::string export_obstacle(const std::string& config);

struct ExportedWith {
  std::string config;              // the model's config.json
  base::Path source = {};          // whose tokenizer and image processor files go along; empty: none
  std::vector<int64_t> ends = {};  // tokens that end a text, where the config names none
  base::Path base_folder = {};     // whose generation_config.json goes along, beside the source's; empty: none
};
// Writes a folder that `transformers` loads. A model that it has no class for is a ConfigError. Written beside and
// renamed; `to` must not exist (ConfigError).
void export_hugging_face(base::FileSystem& files, models::Model& model, const base::Path& to, const ExportedWith& with);

}  // namespace hyperion::interop

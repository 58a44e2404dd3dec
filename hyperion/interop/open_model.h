// The MODEL argument of every command: a run's name or folder, one of its checkpoints (named_checkpoint.h), a
// checkpoint's folder, a Hugging Face folder, or the name of a model in Hugging Face's cache, opened for use.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/interop/find_model.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/refit.h"
#include "hyperion/models/model.h"

namespace hyperion::interop {

// The form in which weights are used. A run with an adapter keeps the adapter alone: its base was used in the type of
// the training, and perhaps in 4 bits (kernels/nf4.h), whatever its own files hold.
enum class WeightForm {
  as_trained,  // as the run was; of a folder as its files are
  whole,       // likewise, but never in 4 bits
  nf4,         // likewise, with all linear layers but the output in 4 bits
  as_kept,     // as the files are, also of a run's base, and an adapter as it was trained: to be written or trained on
};

struct OpenedModel {
  std::unique_ptr<models::Model> model;
  std::string config;              // as Hugging Face's config.json
  bool bytes = true;               // the tokens are bytes
  bool quantized = false;          // its linear layers are in 4 bits now
  bool trained_quantized = false;  // the run was trained beside 4-bit weights
  bool as_kept = false;            // in no type that was asked for; adapters in their own, to be written or merged
  std::vector<int64_t> ends;       // tokens that end a text of the data it was trained on
  int64_t step = 0;                // 0 for a Hugging Face folder
  base::Path checkpoint, run;      // run: the folder that holds checkpoints/, empty for a checkpoint lying alone
  base::Path folder;               // where its tokenizer or image processor lies: Hugging Face's, or one in the run's
  base::Path base_folder;          // the same of its base, where `folder` has a tokenizer of its own; else empty
  std::vector<base::Path> others;  // folders it was read from beside these: its adapters', and their base's
  std::string base_model;          // where that which a run's adapter belongs to lies now, else empty
  std::set<std::string> missing;   // parameters without values: the head of a model to train
  Refitted refitted;               // how it was made to fit
};

// The adapter of a run that trains one.
constexpr const char* kRunAdapter = "default";

// The preprocessor_config.json of one that takes images; empty where it has none.
base::Path image_processor(base::FileSystem& files, const OpenedModel& opened);

// The newest good checkpoint of a run, the one named, or a Hugging Face folder, with its weights on `device` in `type`,
// or else in that of the form. A run that trained an adapter opens as the model it started from with that adapter,
// kRunAdapter, beside it.
OpenedModel open_model(base::FileSystem& files, const std::string& argument, at::Device device,
                       std::optional<at::ScalarType> type = {}, WeightForm form = WeightForm::as_trained);

// The model that an adapter is to be laid on, as model.from would start it: the adapter of a run is merged into whole
// weights first, and put into 4 bits after that where the form is nf4. A head may be missing: add_adapter refuses an
// adapter that does not bring it.
OpenedModel open_beneath(base::FileSystem& files, const std::string& argument, at::Device device,
                         std::optional<at::ScalarType> type = {}, WeightForm form = WeightForm::as_trained);

// Adds the adapter of a folder, or of that name in Hugging Face's cache, under `name`. The first may bring classes,
// token ids, and a tokenizer or an image processor of its own: the model is made to fit, and they are used. Another one
// of other classes or pixels than the first is a ConfigError.
void add_adapter(base::FileSystem& files, const base::Path& place, OpenedModel& opened, const std::string& name);

// The same with parameters without memory (nn/meta.h): `values` reads them from the mapped files when asked
// for. Null where it cannot be had so: the MODEL has an adapter to merge.
ModelOutline outline_model(base::FileSystem& files, const std::string& argument, Head head = Head::needed);

// As it is kept, with its adapter merged into the weights: a model to start from, made to fit where that is asked for.
OpenedModel open_base(base::FileSystem& files, const std::string& argument, at::Device device,
                      std::optional<at::ScalarType> type = {}, const Fit* fit = nullptr);

}  // namespace hyperion::interop

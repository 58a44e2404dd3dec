#include "hyperion/interop/hugging_face.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/interop/weight_files.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/lora.h"
#include "hyperion/nn/meta.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Path;

constexpr const char* kOutput = "lm_head.weight";

// What older versions of `transformers` saved beside the parameters.
bool is_buffer(const std::string& name) {
  for (const char* ending : {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"})
    if (name.ends_with(ending)) return true;
  return false;
}

// Of the whole image, in place of a head: transformers' own classifiers have none.
bool is_pooler(const std::string& name) { return name.starts_with("pooler.") || name.find(".pooler.") != name.npos; }

int64_t elements_of(const WeightFiles& weights) {
  int64_t sum = 0;
  for (const auto& name : weights.names()) sum += weights.elements(name);
  return sum;
}

// Before the model's memory is taken: a config far beyond its files is damaged, and no list of names would help.
void check_size(const std::string& config, const Path& folder, const WeightFiles& weights) {
  constexpr int64_t kSlack = 1 << 24;
  const int64_t named = models::config_shape(config, (folder / "config.json").string(), 1).parameters;
  const int64_t held = elements_of(weights);
  if (named / 2 > held + kSlack)
    throw base::CorruptError(format("{}: config.json describes {} parameters, and the files hold {}", folder.string(),
                                    base::with_commas(named), base::with_commas(held)));
}

// Else the whole file would stay in memory beside the parameters copied from it. Only pages wholly inside are given
// back.
void forget_pages(const at::Tensor& copied) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* bytes = const_cast<char*>(static_cast<const char*>(copied.const_data_ptr()));
  const size_t before = (page - reinterpret_cast<uintptr_t>(bytes) % page) % page;
  if (copied.nbytes() < before + page) return;
  ::madvise(bytes + before, (copied.nbytes() - before) / page * page, MADV_DONTNEED);
}

// Finds each parameter and buffer in the files, and gathers all that does not fit before it says so.
class Matching {
 public:
  Matching(models::Model& model, const WeightFiles& weights, Head head)
      : model_(model), weights_(weights), head_(head), first_(model.parameters().front().name) {
    for (const auto& parameter : model.parameters()) place(parameter.name, parameter.tensor);
    for (const auto& buffer : model.buffers()) place(buffer.name, buffer.tensor);
    for (const auto& name : weights.names())
      if (!used_.contains(name) && !is_buffer(name)) judge_extra(name);
    if (head_ == Head::may_be_missing && !headless_.empty())
      base::log_info(format("the weights to start from have no head: it is made anew, for the classes of the data{}",
                            pooler_ ? ", and their pooler is passed over" : ""));
  }

  void throw_if_wrong(const Path& folder) const {
    if (!(wrong_ + missing_ + extra_).empty())
      throw base::CorruptError(
          format("{}: the weights are not those of its config.json:{}{}{}", folder.string(), wrong_, missing_, extra_),
          headless_.empty() ? "" : "it has no head: train one, with model.from and images");
  }

  // Parameters of the head, where that may be missing and is.
  const std::set<std::string>& headless() const { return headless_; }

  bool has(const std::string& name) const { return names_.contains(name); }

  // Of a parameter or buffer, by the model's name.
  at::Tensor tensor(const std::string& own) const {
    const std::string& name = names_.at(own);
    return weights_.file(name).tensor(name);
  }

  at::ScalarType type() const { return tensor(first_).scalar_type(); }

 private:
  // A file has the stored name or the model's own; a folder saved from the model without its output has every name
  // without the first part.
  std::string find(const std::string& own) const {
    const std::string stored = model_.stored_name(own);
    if (weights_.has(stored) || own == kOutput) return stored;
    return weights_.has(own) ? own : stored.substr(stored.find('.') + 1);
  }

  void place(const std::string& own, const at::Tensor& tensor) {
    const std::string name = find(own);
    const bool counts = tensor.scalar_type() == at::kLong;
    if (!weights_.has(name)) {
      if (model_.input() == models::Input::images && nn::is_output(own)) {
        headless_.insert(own);
        if (head_ != Head::needed) return;
      }
      // How many batches a norm has seen is of no use to it, and older files leave it out.
      if (!counts) missing_ += format("\n  missing: {} {}", model_.stored_name(own), shape_text(tensor.sizes()));
      return;
    }
    used_.insert(name);
    names_[own] = name;
    const auto& file = weights_.file(name);
    if (file.shape(name) != tensor.sizes())
      wrong_ += format("\n  wrong: {} is {}, and the model's is {}", name, shape_text(file.shape(name)),
                       shape_text(tensor.sizes()));
    else if (counts ? file.dtype(name) != at::kLong : !is_weight_type(file.dtype(name)))
      wrong_ += format("\n  wrong: {} holds {}, not {}", name, c10::toString(file.dtype(name)),
                       counts ? "int64" : "fp32, bf16 or fp16");
  }

  // The first parameter of a language model is its token table.
  void judge_extra(const std::string& name) {
    if (model_.input() == models::Input::images && is_pooler(name)) {
      pooler_ = true;
      return;
    }
    const auto table = names_.find(first_);
    if (name != kOutput || table == names_.end()) {
      extra_ += format("\n  extra: {} {}", name, shape_text(weights_.file(name).shape(name)));
    } else if (!at::equal(weights_.file(name).tensor(name), tensor(table->first))) {
      wrong_ += format("\n  wrong: {} is not {}, though the config ties them", name, table->second);
    }
  }

  const models::Model& model_;
  const WeightFiles& weights_;
  Head head_;
  std::string first_;                         // of the parameters
  std::map<std::string, std::string> names_;  // the model's -> the files'
  std::set<std::string> used_, headless_;
  bool pooler_ = false;
  std::string wrong_, missing_, extra_;
};

}  // namespace

bool is_hugging_face_folder(base::FileSystem& files, const Path& path) { return files.exists(path / "config.json"); }

void refuse_pickle(const Path& path) {
  if (is_pickle(path))
    throw base::ConfigError(format("{} is a pickle: a program, not data, and never read here", path.string()),
                            conversion_hint(path.has_parent_path() ? path.parent_path() : Path(".")));
}

HuggingFaceModel open_hugging_face(base::FileSystem& files, const Path& folder, at::Device device,
                                   std::optional<at::ScalarType> type, Head head) {
  const base::OperationScope scope("opening a model");
  HuggingFaceModel opened;
  opened.config = base::read_description(files, folder / "config.json");
  const WeightFiles weights(files, folder);
  check_size(opened.config, folder, weights);
  opened.model = models::make_model(opened.config, (folder / "config.json").string());
  const Matching matching(*opened.model, weights, head);
  matching.throw_if_wrong(folder);
  opened.missing = matching.headless();
  at::NoGradGuard no_grad;
  opened.model->to(device, type.value_or(matching.type()));
  const auto fill = [&](const std::string& name, const at::Tensor& tensor) {
    if (!matching.has(name)) return;
    const auto mapped = matching.tensor(name);
    tensor.copy_(mapped);
    forget_pages(mapped);
  };
  for (const auto& parameter : opened.model->parameters()) fill(parameter.name, parameter.tensor);
  for (const auto& buffer : opened.model->buffers()) fill(buffer.name, buffer.tensor);
  return opened;
}

ModelOutline outline_hugging_face(base::FileSystem& files, const Path& folder, Head head) {
  const base::OperationScope scope("opening a model");
  const auto config = base::read_description(files, folder / "config.json");
  const auto weights = std::make_shared<const WeightFiles>(files, folder);
  check_size(config, folder, *weights);
  ModelOutline outline;
  {
    const nn::MetaScope only_names;
    outline.model = models::make_model(config, (folder / "config.json").string());
  }
  const auto matching = std::make_shared<const Matching>(*outline.model, *weights, head);
  matching->throw_if_wrong(folder);
  outline.missing = matching->headless();
  at::NoGradGuard no_grad;
  for (const auto& buffer : outline.model->buffers())
    if (matching->has(buffer.name)) at::Tensor(buffer.tensor).copy_(matching->tensor(buffer.name));
  outline.values = [weights, matching](const std::string& name, int64_t begin, const at::Tensor& out) {
    const auto mapped = matching->tensor(name).reshape(-1).narrow(0, begin, out.numel());
    out.copy_(mapped);
    forget_pages(mapped);
  };
  return outline;
}

}  // namespace hyperion::interop

#include "hyperion/train/measure.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/data/prepared.h"
#include "hyperion/tokenizers/compare_tokenizers.h"

namespace hyperion::train {
namespace {

using base::ConfigError;
using base::format;

void check_classes(const data::MeasuredSet& set, const interop::OpenedModel& opened, const std::string& name) {
  const auto wanted = set.classes();
  const base::Json labels = base::parse_json(opened.model->config_json(), name).value("id2label", base::Json::object());
  const auto known = [&](size_t i) { return labels.value(std::to_string(i), std::string()); };
  bool named = false;
  for (size_t i = 0; i < labels.size(); ++i) named |= known(i) != format("LABEL_{}", i);
  if (wanted.size() > labels.size() || (!named && wanted.size() != labels.size()))
    throw ConfigError(
        format("{} has {} classes, and {} knows {}", set.folder().string(), wanted.size(), name, labels.size()),
        "measure a model on a set of its own classes");
  for (size_t i = 0; named && i < wanted.size(); ++i)
    if (known(i) != wanted[i] && known(i) != format("LABEL_{}", i))
      throw ConfigError(
          format("class {} is \"{}\" in {}, and \"{}\" in {}", i, wanted[i], set.folder().string(), known(i), name),
          "the classes of a set must be the model's, in their order");
}

// A run keeps the files of its set's tokenizer, whatever their names.
bool has_same_files(base::FileSystem& files, const base::Path& of_set, const base::Path& folder) {
  for (const auto& path : files.list(of_set)) {
    const base::Path other = folder / path.filename();
    if (!files.exists(other) || base::read_description(files, path) != base::read_description(files, other))
      return false;
  }
  return true;
}

// What ids mean is known by the tokenizers; the set's must be the model's, or one of the two only add to the other.
std::string check_tokenizers(base::FileSystem& files, const data::MeasuredSet& set, const interop::OpenedModel& opened,
                             const std::string& name) {
  const base::Path of_set = set.folder() / data::kSetTokenizer, own = opened.folder / "tokenizer.json";
  const bool bytes = !files.exists(of_set);
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(format("{} was prepared {}, which is not the tokenizer of {}", set.folder().string(), what, name),
                      opened.folder.empty()
                          ? "prepare the text with the tokenizer of the model"
                          : format("prepare the text with --prepare.tokenizer={}", opened.folder.string()));
  };
  if (opened.bytes && bytes) return {};
  if (opened.bytes) refuse("with a tokenizer");
  if (!bytes && !opened.folder.empty() && has_same_files(files, of_set, opened.folder)) return {};
  const bool known = !opened.folder.empty() && files.exists(own);
  if (known && bytes) refuse("as bytes");
  if (!known || !files.exists(of_set / "tokenizer.json"))
    return format("{} has no tokenizer.json: whether it means the token ids of {} cannot be checked",
                  known ? set.folder().string() : name, set.folder().string());
  const auto here = tokenizers::read_tokenizer(files, of_set / "tokenizer.json"),
             there = tokenizers::read_tokenizer(files, own);
  if (!tokenizers::extends_tokenizer(here, there) && !tokenizers::extends_tokenizer(there, here))
    refuse("with another tokenizer");
  return {};
}

}  // namespace

std::vector<std::string> check_measurable(base::FileSystem& files, const data::MeasuredSet& set,
                                          const interop::OpenedModel& opened, const std::string& name,
                                          const MeasureSize& size) {
  const bool images = opened.model->input() == models::Input::images;
  if (images != set.has_images())
    throw ConfigError(format("{} reads {}, and {} holds {}", name, images ? "images" : "text", set.folder().string(),
                             set.has_images() ? "images" : "text"),
                      format("name a set of {}", images ? "images" : "text"));
  if (images) {
    check_classes(set, opened, name);
    if (!interop::image_processor(files, opened).empty()) return {};
    return {
        format("{} has no {}: images become numbers as {} says", name, images::kProcessorFile, set.folder().string())};
  }
  const auto shape = opened.model->shape(size.length);
  if (shape.vocabulary < set.vocabulary())
    throw ConfigError(
        format("{} knows {} token ids, and {} has {}", name, shape.vocabulary, set.folder().string(), set.vocabulary()),
        "prepare the text with the tokenizer of the model");
  if (size.length > shape.context)
    throw ConfigError(
        format("--length {} is longer than the {} tokens that {} reads", size.length, shape.context, name),
        "a shorter --length");
  const auto unknown = check_tokenizers(files, set, opened, name);
  return unknown.empty() ? std::vector<std::string>() : std::vector<std::string>{unknown};
}

Evaluation measure(const interop::OpenedModel& opened, at::Device device, const data::MeasuredSet& set,
                   const MeasureSize& size) {
  RunConfig config;
  config.train.batch = kMeasuredBatch;
  config.eval.batches = size.batches > 0 ? size.batches : set.records() + INT32_MAX;
  if (!set.has_images()) {
    config.train.length = size.length;
    config.data.reset = true;
    return evaluate(*opened.model, device, set.tokens(size.length), config);
  }
  const base::Path place = interop::image_processor(base::real_files(), opened);
  if (place.empty()) {
    constexpr int64_t kSide = 32;  // for a model of any size
    const int64_t side = opened.model->shape(1).image;
    return evaluate(*opened.model, device, set.images(side > 0 ? side : kSide), config);
  }
  const auto processing = images::parse_processor(base::read_description(base::real_files(), place), place.string());
  return evaluate(*opened.model, device, set.images(processing), config);
}

}  // namespace hyperion::train

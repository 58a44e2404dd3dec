#include "hyperion/data/prepared.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/words.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/token_samples.h"
#include "hyperion/tokenizers/compare_tokenizers.h"

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;

// Where a relative path was looked for; empty for one that says so itself.
std::string looked_at(const base::Path& folder) {
  std::error_code ignored;
  if (folder.is_absolute()) return "";
  return format(": there is no {}", std::filesystem::absolute(folder, ignored).lexically_normal().string());
}

}  // namespace

void check_prepared(const base::Path& folder, const std::string& named) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / kSetRecord, ignored)) return check_set_files(base::real_files(), folder);
  const bool half = std::filesystem::exists(folder.string() + ".partial", ignored);
  const bool there = std::filesystem::exists(folder, ignored);
  const std::string moved = named.starts_with("data.path")
                                ? "; a run whose set was moved goes on with: hyperion resume RUN --data.path=PLACE"
                                : "";
  throw ConfigError(format("{} {}", named,
                           half    ? "is not prepared to its end"
                           : there ? "is no folder that `hyperion data prepare` made"
                                   : "does not exist" + looked_at(folder)),
                    half ? "run `hyperion data prepare` with its recipe again: it goes on where it stopped"
                         : "make one with: hyperion data prepare RECIPE" + moved);
}

namespace {

// Several sources as one: sample i of all. In the order given, or each spread evenly over the whole, so that any first
// part of it holds them all.
class Joined final : public Source {
 public:
  Joined(std::vector<std::unique_ptr<Source>> parts, bool spread) : parts_(std::move(parts)) {
    for (size_t part = 0; part < parts_.size(); ++part) {
      vocabulary_ = std::max(vocabulary_, parts_[part]->vocabulary());
      begins_.push_back(samples_);
      samples_ += parts_[part]->samples();
    }
    if (!spread || parts_.size() == 1) return;
    for (size_t part = 0; part < parts_.size(); ++part)
      for (int64_t i = 0; i < parts_[part]->samples(); ++i) spread_.push_back({static_cast<int32_t>(part), i});
    const auto place = [&](const At& at) {
      return (static_cast<double>(at.index) + 0.5) / static_cast<double>(parts_[at.part]->samples());
    };
    std::stable_sort(spread_.begin(), spread_.end(), [&](const At& a, const At& b) { return place(a) < place(b); });
  }

  int64_t samples() const override { return samples_; }
  int64_t vocabulary() const override { return vocabulary_; }
  Cut cut() const override {
    Cut all;
    for (const auto& part : parts_) {
      const Cut one = part->cut();
      all.documents += one.documents, all.too_long += one.too_long, all.unlearned += one.unlearned;
    }
    return all;
  }
  bool pads() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->pads(); });
  }
  void read(int64_t index, const TokenRow& row) const override {
    const At at = find(index);
    parts_[at.part]->read(at.index, row);
  }

 private:
  struct At {
    int32_t part;
    int64_t index;
  };
  At find(int64_t index) const {
    if (!spread_.empty()) return spread_[index];
    const auto part = std::upper_bound(begins_.begin(), begins_.end(), index) - begins_.begin() - 1;
    return {static_cast<int32_t>(part), index - begins_[part]};
  }

  std::vector<std::unique_ptr<Source>> parts_;
  std::vector<int64_t> begins_;
  std::vector<At> spread_;
  int64_t samples_ = 0, vocabulary_ = 0;
};

// No length of samples helps here. One of every 1 / prepare.validation records is held out.
void check_held_out(const base::Path& folder) {
  if (SetFile(folder / kValidationSet).records() > 0) return;
  const int64_t records = std::max<int64_t>(SetFile(folder / kTrainSet).records(), 1);
  throw ConfigError(
      format("{} has nothing to validate on: none of its {} records was held out", folder.string(), records),
      format("prepare it under another name with --prepare.validation={:.2f}, or with prepare.validation_files",
             static_cast<double>(std::clamp<int64_t>((100 + records - 1) / records, 1, 50)) / 100));
}

std::unique_ptr<Source> open_tokens(const base::Path& path, const DataConfig& config, int64_t length) {
  auto set = std::make_shared<const TokenSet>(path);
  const int64_t tokens = set->tokens(), documents = set->documents();
  if (tokens > 0 && set->learned_in_all() == 0)
    throw ConfigError(format("{} has no token that the loss counts", path.string()),
                      "its dialogues have no assistant's turn: look at prepare.chat or prepare.messages");
  auto source = make_token_source(std::move(set), config.packing, length, config.too_long);
  if (source->samples() == 0 && documents > 0 && source->cut().too_long == documents)
    throw ConfigError(format("all {} documents of {} are longer than train.length = {}, and data.too_long = \"{}\" "
                             "leaves nothing to learn",
                             documents, path.string(), length, base::word_of(config.too_long)),
                      "use a longer train.length, or data.too_long = split");
  if (source->samples() == 0 && source->cut().unlearned > 0)
    throw ConfigError(format("no sample of {} tokens of {} has one that the loss counts", length, path.string()),
                      "use a longer train.length, or data.packing = whole, whose rows are whole dialogues");
  if (source->samples() == 0)
    throw ConfigError(format("{} has {} tokens: too few for a sample of {}", path.string(), tokens, length),
                      "use a shorter train.length, prepare more text, or raise prepare.validation");
  return source;
}

// Several sets of images would need the same classes; there is one.
Split open_prepared_images(const DataConfig& config, int64_t side, uint64_t seed) {
  if (config.path.size() > 1)
    throw ConfigError(format("data.path names {} folders, and images come from one", config.path.size()),
                      "prepare them together");
  for (const auto& [is_set, what] :
       {std::pair(config.packing != Packing::stream, "data.packing"), {config.reset, "data.reset"}})
    if (is_set) throw ConfigError(format("{} is set, and {} holds images", what, config.path[0]), "leave it out");
  const auto source = [&](const char* name, bool training) {
    auto set = std::make_shared<const ImageSet>(base::Path(config.path[0]) / name);
    if (set->images() == 0)
      throw ConfigError(format("{} holds no images", set->file().path().string()), "prepare more of them");
    auto augment = config.augment;
    if (set->normalisation() == images::kCifar) augment.centre = 1;  // as data.source = "cifar" has them
    images::Augmenter augmenter(augment, side, seed, training, set->normalisation());
    return make_image_source(std::move(set), side, std::move(augmenter));
  };
  check_held_out(config.path[0]);
  Split split;
  for (const char* name : {kTrainSet, kValidationSet})
    split.digest += SetFile(base::Path(config.path[0]) / name).digest();
  split.train_images = source(kTrainSet, true), split.validation_images = source(kValidationSet, false);
  return split;
}

// Ids of one tokenizer mean nothing to another.
void check_same_tokenizer(const std::vector<std::string>& folders) {
  const auto tokenizer = [](const std::string& folder) {
    nlohmann::json files = read_set_record(base::real_files(), folder).at("files");
    files.erase(kTrainSet), files.erase(kValidationSet);
    for (const char* name :
         {"generation_config.json", "chat_template.jinja", "tool_use.jinja", "tokenizer_config.json"})
      files.erase(std::string(kSetTokenizer) + "/" + name);
    return files;
  };
  const auto described = [](const std::string& folder) {
    const base::Path path = base::Path(folder) / kSetTokenizer / "tokenizer.json";
    return base::real_files().exists(path) ? tokenizers::read_tokenizer(base::real_files(), path)
                                           : tokenizers::TokenizerText();
  };
  const auto saved_otherwise = [&](const std::string& one, const std::string& other) {
    const tokenizers::TokenizerText here = described(one), there = described(other);
    return !here.json.empty() && !there.json.empty() && tokenizers::same_tokenizer(here, there);
  };
  for (const auto& folder : folders)
    if (tokenizer(folder) != tokenizer(folders[0]) && !saved_otherwise(folder, folders[0]))
      throw ConfigError(format("{} and {} were prepared with different tokenizers", folders[0], folder),
                        "prepare both with the tokenizer of the model");
}

}  // namespace

nlohmann::json read_set_record(base::FileSystem& files, const base::Path& folder) {
  const base::Path path = folder / kSetRecord;
  if (!files.exists(path))
    throw ConfigError(format("{} is no prepared set: it has no {}", folder.string(), kSetRecord),
                      "make one with: hyperion data prepare RECIPE");
  auto record = base::parse_json(base::read_description(files, path), path.string());
  if (!record.is_object() || !record.value("files", nlohmann::json()).is_object() ||
      !record.value("kind", nlohmann::json()).is_string())
    throw base::CorruptError(format("{} is not the record of a set", path.string()),
                             "remove the folder, then make it again: hyperion data prepare RECIPE");
  return record;
}

nlohmann::json set_files(base::FileSystem& files, const base::Path& folder) {
  nlohmann::json all = nlohmann::json::object();
  for (const char* name : {kTrainSet, kValidationSet})
    all[name] = {{"bytes", files.size(folder / name)}, {"digest", SetFile(folder / name).digest()}};
  for (const auto& path : files.list(folder / kSetTokenizer)) {
    const std::string bytes = files.read(path);
    all[std::string(kSetTokenizer) + "/" + path.filename().string()] = {{"bytes", bytes.size()},
                                                                        {"digest", base::hash_hex(bytes)}};
  }
  return all;
}

void check_set_files(base::FileSystem& files, const base::Path& folder) {
  const auto record = read_set_record(files, folder).at("files");
  const auto refuse = [&](const std::string& name, const std::string& why) {
    throw base::CorruptError(format("{} {}", (folder / name).string(), why),
                             "put the file back, or remove the folder and make it again: hyperion data prepare RECIPE");
  };
  for (const auto& [name, facts] : record.items())
    if (!files.exists(folder / name)) refuse(name, "is missing");
  const auto found = set_files(files, folder);
  for (const auto& [name, facts] : record.items())
    if (!found.contains(name) || found.at(name) != facts) refuse(name, "is not the file that was prepared");
}

Split open_prepared(const DataConfig& config, SampleSize size, uint64_t seed) {
  for (const auto& folder : config.path) check_prepared(folder, format("data.path = \"{}\"", folder));
  if (SetFile(base::Path(config.path[0]) / kTrainSet).kind() == kImages)
    return open_prepared_images(config, size.side, seed);
  if (varies(config.augment))
    throw ConfigError(format("[augment] varies images, and {} holds tokens", config.path[0]), "leave [augment] out");
  std::vector<std::unique_ptr<Source>> train, validation;
  Split split;
  check_same_tokenizer(config.path);
  for (const base::Path folder : config.path) {
    split.digest += SetFile(folder / kTrainSet).digest() + SetFile(folder / kValidationSet).digest();
    train.push_back(open_tokens(folder / kTrainSet, config, size.length));
    check_held_out(folder);
    if (const int64_t left_out = train.back()->cut().unlearned; left_out > 0) split.digest += format("-{}", left_out);
    validation.push_back(open_tokens(folder / kValidationSet, config, size.length));
    split.sets.push_back(train.back()->samples());
  }
  if (config.packing == Packing::whole) split.digest += kFitted;
  split.weights = weights_of(config);
  split.train = std::make_unique<Joined>(std::move(train), false);
  split.validation = std::make_unique<Joined>(std::move(validation), true);
  return split;
}

}  // namespace hyperion::data

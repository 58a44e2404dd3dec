#include "hyperion/data/prepare_images.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/data/held_out.h"
#include "hyperion/data/image_check.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/ordered_work.h"
#include "hyperion/data/prepared.h"
#include "hyperion/images/image_decode.h"
#include "hyperion/images/resample.h"
#include "hyperion/records/input_files.h"

namespace hyperion::data {
namespace {

using base::format;
using base::Json;

constexpr size_t kImageBytesUnderWay = size_t{64} << 20;
constexpr uint64_t kSafeImageBytes = uint64_t{256} << 20;  // between two journals
constexpr const char* kSets[] = {kTrainSet, kValidationSet};

struct ImageTask {
  ImageItem item;
  size_t cost = 0;
};

struct Made {
  ImageItem item;  // its bytes are the record
  size_t bytes = 0;
};

images::Pixels made_smaller(images::Pixels image, int64_t side) {
  const int64_t shorter = std::min(image.size.height, image.size.width);
  if (shorter <= side) return image;
  const images::ImageSize size{image.size.height * side / shorter, image.size.width * side / shorter};
  return resize(image, {image.whole(), size});
}

Made make(ImageTask& task, const ImageRecipe& recipe) {
  Made made{std::move(task.item), task.cost};
  ImageItem& item = made.item;
  if (item.bad || item.is_raw) return made;
  try {
    images::Pixels image = images::decode_image(item.bytes, item.name);
    if (recipe.raw) item.bytes = raw_record(made_smaller(std::move(image), recipe.side));
  } catch (const base::CorruptError& error) {
    const std::string what = error.what();
    item.bad = records::BadRecord(item.name, 0, what.starts_with(item.name) ? what.substr(item.name.size() + 2) : what);
  }
  return made;
}

// Both files of a set, and how far the inputs are read.
class ImageOutput {
 public:
  ImageOutput(base::FileSystem& files, const ImageRecipe& recipe, Preparation& preparation)
      : recipe_(recipe), preparation_(preparation), bad_(recipe.on_bad, recipe.bad_limit) {
    const Json& journal = preparation.journal();
    if (journal.is_null())
      for (const auto& bad : recipe.bad_lines) bad_.add(bad);
    if (!journal.is_null()) {
      taken_ = journal.at("taken").get<int64_t>(), classes_ = journal.at("classes").get<int64_t>();
      complete_ = journal.at("complete").get<bool>();
      for (const auto& bad : journal.at("bad"))
        bad_.add(records::BadRecord(bad.at(0).get<std::string>(), 0, bad.at(1).get<std::string>()));
    }
    for (const char* name : kSets) {
      const base::Path path = preparation.folder() / name;
      const auto kept = journal.is_null() ? SetWriter::Kept{} : journal.at(name).get<SetWriter::Kept>();
      const bool finished = complete_ && files.exists(path);  // killed between the two
      writers_.push_back(finished ? nullptr : std::make_unique<ImageSetWriter>(files, path, kept));
    }
  }

  int64_t taken() const { return taken_; }  // items so far, bad ones too
  bool complete() const { return complete_; }
  const records::BadRecords& bad() const { return bad_; }
  uint64_t bytes() const { return writers_[0]->payload_bytes() + writers_[1]->payload_bytes(); }
  int64_t images() const { return writers_[0]->images() + writers_[1]->images(); }

  void add(const ImageItem& item) {
    const int64_t place = taken_++;
    if (item.bad) return bad_.add(*item.bad);
    const bool apart = !recipe_.has_shards() || !recipe_.validation.empty();
    const bool of_validation = apart ? item.of_validation : is_held_out(place, recipe_.held_out);
    classes_ = std::max(classes_, item.label + 1);
    writers_[of_validation]->add(item.bytes, item.label);
  }

  void make_safe() {
    Json journal = {{"taken", taken_}, {"classes", classes_}, {"complete", complete_}, {"bad", Json::array()}};
    for (const auto& bad : bad_.list()) journal["bad"].push_back({bad.file, bad.reason});
    for (size_t i = 0; i < 2; ++i) journal[kSets[i]] = writers_[i]->make_safe();
    preparation_.write_journal(journal);
    base::fault_point("prepare.journal");
  }

  void finish() {
    if (!complete_) {
      if (writers_[0]->images() == 0)
        throw base::ConfigError("no image is left to train on", "look at what was skipped, or name other files");
      complete_ = true;
      make_safe();
    }
    auto classes = recipe_.cifar ? recipe_.cifar->classes : recipe_.lists.train.classes;
    if (recipe_.has_shards())
      for (int64_t label = 0; label < classes_; ++label) classes.push_back(std::to_string(label));
    for (auto& writer : writers_)
      if (writer) writer->finish(recipe_.raw ? "raw" : "jpeg", recipe_.cifar ? "cifar" : "imagenet", classes);
  }

 private:
  const ImageRecipe& recipe_;
  Preparation& preparation_;
  records::BadRecords bad_;
  std::vector<std::unique_ptr<ImageSetWriter>> writers_;  // training, validation; null: finished before
  int64_t taken_ = 0, classes_ = 0;                       // classes_: of shards, one more than the highest label
  bool complete_ = false;
};

PrepareSummary image_summary(const Preparation& preparation) {
  PrepareSummary summary;
  summary.output = preparation.output();
  summary.records = ImageSet(summary.output / kTrainSet).images();
  summary.validation_records = ImageSet(summary.output / kValidationSet).images();
  return summary;
}

}  // namespace

std::vector<base::Path> ImageRecipe::inputs() const {
  std::vector<base::Path> all = training;
  if (cifar)
    for (const auto* half : {&cifar->train, &cifar->test})
      for (const auto& path : *half)
        if (base::real_files().exists(path)) all.push_back(path);
  all.insert(all.end(), validation.begin(), validation.end());
  for (const ImageList* list : {&lists.train, &lists.validation})
    for (const auto& file : list->files) all.push_back(file.path);
  return all;
}

std::string ImageRecipe::digest() const {
  base::Hasher hasher;
  const auto add = [&](const std::string& text) { hasher.update(text + '\n'); };
  add(format("{} {}", training.size(), validation.size()));
  for (const auto& name : cifar ? cifar->classes : lists.train.classes) add(name);
  for (const ImageList* list : {&lists.train, &lists.validation}) {
    add(format("{}", list->files.size()));
    for (const auto& file : list->files) add(format("{}", file.label));
  }
  return hasher.hex();
}

ImageRecipe image_recipe(const PrepareConfig& config) {
  ImageRecipe recipe;
  recipe.raw = config.store == ImageStore::raw, recipe.side = config.side;
  recipe.on_bad = config.on_bad, recipe.bad_limit = config.bad_limit;
  recipe.held_out = config.validation, recipe.safe_seconds = config.safe_seconds;
  if (config.format == SetFormat::cifar) {
    if (config.files.size() != 1 || !config.validation_files.empty())
      throw base::ConfigError("CIFAR's files lie in one folder, its test files too",
                              "name that folder in prepare.files");
    recipe.cifar = cifar_layout(config.files[0]);
    recipe.raw = true;
    return recipe;
  }
  std::error_code ignored;
  if (config.files.size() == 1 && std::filesystem::is_directory(config.files[0], ignored)) {
    if (!config.validation_files.empty())
      throw base::ConfigError("prepare.validation_files is set, and prepare.files is a folder of images",
                              "put them into folders train and val inside it");
    records::BadRecords bad(recipe.on_bad, recipe.bad_limit);
    recipe.lists = list_images(config.files[0], config.validation, &bad);
    for (ImageList* list : {&recipe.lists.train, &recipe.lists.validation})
      std::erase_if(list->files, [&](const ImageFile& file) {
        const std::string why = why_unreadable(file.path);
        if (!why.empty()) bad.add(records::BadRecord(records::shown_in_utf8(file.path.native()), 0, why));
        return !why.empty();
      });
    recipe.bad_lines = bad.list();
    if (const auto said = passed_over_text(recipe.lists); !said.empty()) base::log_warn(said);
    return recipe;
  }
  recipe.training = records::input_files(config.files);
  if (!config.validation_files.empty()) recipe.validation = records::input_files(config.validation_files);
  return recipe;
}

PrepareSummary prepare_images(base::FileSystem& files, const ImageRecipe& recipe, Preparation& preparation, int threads,
                              const OnPrepare& progress) {
  if (preparation.done()) {
    auto summary = image_summary(preparation);
    summary.was_there = true;
    return summary;
  }
  const auto taken_up = preparation.take_up_in<ImageOutput>(files, recipe, preparation);
  ImageOutput& output = *taken_up;
  const bool resumed = !preparation.journal().is_null();
  if (!output.complete()) {
    const auto items = recipe.cifar          ? items_of_cifar(*recipe.cifar)
                       : recipe.has_shards() ? items_of_shards(recipe.training, recipe.validation)
                                             : items_of_lists(recipe.lists);
    items->skip(output.taken());
    OrderedWork<ImageTask, Made> work(
        threads, kImageBytesUnderWay,
        [&](ImageTask& task) {
          if (!items->next(task.item)) return false;
          task.cost = task.item.bytes.size() + sizeof(ImageTask);
          return true;
        },
        [&](ImageTask& task) { return make(task, recipe); });
    const uint64_t in_all = preparation.input_bytes();
    uint64_t bytes = 0, safe_bytes = output.bytes();
    double safe_at = base::real_clock().seconds();
    for (Made made; work.next(made);) {
      output.add(made.item);
      bytes += made.bytes;
      if (progress) progress({"decoding", std::min(bytes, in_all), in_all, output.images(), 0});
      base::fault_point("prepare.batch");
      const double now = base::real_clock().seconds();
      const int signal = base::stop_signal();
      if (output.bytes() - safe_bytes > kSafeImageBytes || now - safe_at > recipe.safe_seconds || signal != 0) {
        output.make_safe();
        safe_bytes = output.bytes(), safe_at = now;
      }
      if (signal != 0)
        throw base::Interrupted(format("stopped; {} images are safe in {}", base::with_commas(output.images()),
                                       preparation.folder().string()),
                                base::stop_exit_code(signal), "the same command goes on there");
    }
  }
  output.finish();
  Json bad = Json::array();
  for (const auto& record : output.bad().list()) bad.push_back(record.what());
  preparation.finish({{"kind", kImages}, {"skipped", bad}});
  auto summary = image_summary(preparation);
  summary.resumed = resumed;
  summary.bad = bad.get<std::vector<std::string>>();
  return summary;
}

}  // namespace hyperion::data

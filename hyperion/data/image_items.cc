#include "hyperion/data/image_items.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/data/image_set.h"
#include "hyperion/records/input_files.h"
#include "hyperion/records/open_bytes.h"
#include "hyperion/records/tar.h"

namespace hyperion::data {
namespace {

using base::format;

class ListItems final : public ImageItems {
 public:
  explicit ListItems(const ImageSplit& lists) : lists_(lists) {}

  bool next(ImageItem& item) override {
    const size_t training = lists_.train.files.size();
    if (at_ == training + lists_.validation.files.size()) return false;
    const bool of_validation = at_ >= training;
    const ImageFile& file = of_validation ? lists_.validation.files[at_ - training] : lists_.train.files[at_];
    item = {file.path.string(), {}, file.label, of_validation, {}};
    try {
      item.bytes = base::real_files().read(file.path);
    } catch (const base::FileError& error) {
      item.bad = records::BadRecord(item.name, 0, error.what());
    }
    ++at_;
    return true;
  }
  void skip(int64_t count) override { at_ += static_cast<size_t>(count); }

 private:
  const ImageSplit& lists_;
  size_t at_ = 0;
};

class ShardItems final : public ImageItems {
 public:
  ShardItems(std::vector<base::Path> shards, size_t training) : shards_(std::move(shards)), training_(training) {}

  bool next(ImageItem& item) override {
    if (broken_) {
      item = {broken_->file, {}, 0, shard_ > training_, std::move(broken_)};
      broken_.reset();
      return true;
    }
    for (; shard_ < shards_.size(); ++shard_, reader_.reset())
      if (next_of_shard(item)) return true;
    return false;
  }
  void skip(int64_t count) override {
    ImageItem dropped;
    for (int64_t i = 0; i < count && next(dropped); ++i) base::throw_if_stopped("finding the place");
  }

 private:
  struct Group {
    std::string key, image, label, failure;
    bool has_image = false, has_label = false;
    std::set<std::string> endings;
  };

  bool next_of_shard(ImageItem& item) {
    Group group = std::exchange(ahead_, {});
    try {
      if (!reader_) reader_.emplace(records::open_bytes(shards_[shard_]), file());
      for (records::TarMember member; reader_->next(member);) {
        const auto [key, ending] = parts_of(member.name);
        if (!group.key.empty() && key != group.key) {
          ahead_.key = key;
          add(ahead_, member, ending);
          return give(group, item);
        }
        group.key = key;
        add(group, member, ending);
      }
    } catch (const records::BadRecord& bad) {  // of the shard: nothing comes after it
      if (group.has_image && group.has_label) {
        give(group, item);
        broken_ = bad;
      } else {
        item = {bad.file, {}, 0, shard_ >= training_, bad};
      }
      ++shard_, reader_.reset(), ahead_ = {};
      return true;
    }
    return !group.key.empty() && give(group, item);
  }

  // Up to the first dot of the name itself, and what comes after it.
  static std::pair<std::string, std::string> parts_of(const std::string& name) {
    const size_t slash = name.rfind('/'), begin = slash == name.npos ? 0 : slash + 1, dot = name.find('.', begin);
    if (dot == name.npos) return {name, ""};
    std::string ending = name.substr(dot + 1);
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
    return {name.substr(0, dot), ending};
  }

  void add(Group& group, const records::TarMember& member, const std::string& ending) {
    const bool image = ending == "jpg" || ending == "jpeg" || ending == "png";
    if (!image && ending != "cls") return;
    bool& has = image ? group.has_image : group.has_label;
    if (!group.endings.insert(ending).second && group.failure.empty())
      group.failure = format("has .{} {}", ending, records::kThereTwice);
    if (has && group.failure.empty()) group.failure = format("has more than one {}", image ? "image" : "label");
    if (const uint64_t most = image ? records::TarReader::kMostBytes : 64; member.size > most)
      group.failure = format("has {} of {}", base::bytes_text(member.size), ending);
    else
      reader_->read(image ? group.image : group.label);
    has = true;
  }

  bool give(Group& group, ImageItem& item) {
    int64_t label = -1;
    const std::string& text = group.label;
    const size_t end = text.find_last_not_of(" \r\n") + 1;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, label);
    std::string failure = std::move(group.failure);
    if (failure.empty() && !group.has_image) failure = "has no image (.jpg, .jpeg or .png)";
    if (failure.empty() && !group.has_label) failure = "has no label (.cls)";
    if (failure.empty() && (error != std::errc{} || stop != text.data() + end || label < 0 || label > kMostLabel))
      failure = format("has the label \"{}\", which is no number in 0 .. {}",
                       records::shown_in_utf8(text.substr(0, end)), kMostLabel);
    const std::string key = records::shown_in_utf8(group.key);  // a list of what is bad is JSON
    item = {format("{}: {}", file(), key), std::move(group.image), label, shard_ >= training_, {}};
    if (!failure.empty()) item.bad = records::BadRecord(file(), 0, format("{} {}", key, failure));
    return true;
  }
  std::string file() const { return shards_[shard_].string(); }

  std::vector<base::Path> shards_;
  size_t training_, shard_ = 0;
  std::optional<records::TarReader> reader_;
  Group ahead_;  // begun, while the one before it was given
  std::optional<records::BadRecord> broken_;
};

class CifarItems final : public ImageItems {
 public:
  explicit CifarItems(const CifarLayout& layout) : layout_(layout) {}

  bool next(ImageItem& item) override {
    for (; file_ < layout_.train.size() + layout_.test.size(); ++file_, at_ = 0, images_.reset()) {
      const bool of_validation = file_ >= layout_.train.size();
      const base::Path& path = of_validation ? layout_.test[file_ - layout_.train.size()] : layout_.train[file_];
      if (!images_) {
        try {
          images_.emplace(path, layout_);
        } catch (const base::Error& error) {  // a missing or damaged file is one item
          item = {path.string(), {}, 0, of_validation, records::BadRecord(path.string(), 0, error.what())};
          ++file_;
          return true;
        }
      }
      if (at_ == images_->images()) continue;
      item = {format("{}: image {}", path.string(), at_), {}, images_->label(at_), of_validation, {}, true};
      if (item.label >= static_cast<int64_t>(layout_.classes.size()))
        item.bad = records::BadRecord(item.name, 0,
                                      format("label {}, and there are {} classes", item.label, layout_.classes.size()));
      else
        item.bytes = raw_record(images_->pixels(at_));
      ++at_;
      return true;
    }
    return false;
  }
  void skip(int64_t count) override {
    ImageItem dropped;
    for (int64_t i = 0; i < count && next(dropped); ++i) base::throw_if_stopped("finding the place");
  }

 private:
  const CifarLayout& layout_;
  size_t file_ = 0;
  int64_t at_ = 0;
  std::optional<CifarFile> images_;
};

}  // namespace

std::unique_ptr<ImageItems> items_of_lists(const ImageSplit& lists) { return std::make_unique<ListItems>(lists); }

std::unique_ptr<ImageItems> items_of_shards(std::vector<base::Path> training, std::vector<base::Path> validation) {
  const size_t count = training.size();
  training.insert(training.end(), validation.begin(), validation.end());
  return std::make_unique<ShardItems>(std::move(training), count);
}

std::unique_ptr<ImageItems> items_of_cifar(const CifarLayout& layout) { return std::make_unique<CifarItems>(layout); }

}  // namespace hyperion::data

// Images in a prepared set: docs/format_set.md, kind "images".
#pragma once
#include "hyperion/data/images.h"
#include "hyperion/data/set_file.h"
#include "hyperion/images/augment.h"

namespace hyperion::data {

inline constexpr const char* kImages = "images";

class ImageSet {
 public:
  // Opening takes the same time for any number of images. Throws CorruptError where the file is not such a set.
  explicit ImageSet(const base::Path& path);

  int64_t images() const { return file_.records(); }
  const std::vector<std::string>& classes() const { return classes_; }
  bool is_raw() const { return raw_; }
  const images::Normalisation& normalisation() const { return normalisation_; }
  const SetFile& file() const { return file_; }
  int64_t label(int64_t index) const;  // checked against the classes
  std::string_view bytes(int64_t index) const { return file_.record(index); }
  std::string name(int64_t index) const;        // for messages
  images::ImageSize size(int64_t index) const;  // read from its header
  images::Pixels pixels(int64_t index) const;   // decoded where it is not raw

  // Reads everything: hashes, bounds, labels, the sizes of raw images. Throws CorruptError that names the first
  // failure.
  void verify(const std::function<void(uint64_t)>& progress = {}) const;

 private:
  SetFile file_;
  std::vector<std::string> classes_;
  bool raw_ = false;
  images::Normalisation normalisation_ = images::kImagenet;
  std::string_view labels_;
};

// A raw image as a record.
std::string raw_record(const images::Pixels& image);

class ImageSetWriter {
 public:
  // `kept`: as SetWriter's.
  ImageSetWriter(base::FileSystem& files, base::Path path, const SetWriter::Kept& kept = {})
      : writer_(files, std::move(path), kept) {}
  void add(std::string_view record, int64_t label);
  int64_t images() const { return writer_.records(); }
  uint64_t payload_bytes() const { return writer_.payload_bytes(); }
  SetWriter::Kept make_safe() { return writer_.make_safe(); }
  // `normalise`: what augment.normalise = "auto" stands for.
  void finish(const std::string& store, const std::string& normalise, const std::vector<std::string>& classes);

 private:
  SetWriter writer_;
};

std::unique_ptr<ImageSource> make_image_source(std::shared_ptr<const ImageSet> set, int64_t side,
                                               images::Augmenter augmenter);

}  // namespace hyperion::data

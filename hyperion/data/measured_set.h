// A prepared set to measure models on: the part that was held out, or all of it where nothing was.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/data/source.h"
#include "hyperion/images/image_processing.h"

namespace hyperion::data {

class ImageSet;
class TokenSet;

class MeasuredSet {
 public:
  // Throws ConfigError where the folder is no prepared set, or nothing in it can be measured.
  explicit MeasuredSet(const base::Path& folder);

  const base::Path& folder() const { return folder_; }
  const std::string& part() const { return part_; }  // "validation", or "all"
  bool has_images() const { return images_ != nullptr; }
  int64_t records() const;     // documents, or images
  int64_t vocabulary() const;  // one more than the highest token there can be; of images 0
  std::vector<std::string> classes() const;

  // Splits of a validation half alone. Documents, each for itself (data.reset) and in pieces of at most `length`
  // tokens; each token but the first of a document is a target once.
  Split tokens(int64_t length) const;
  // Images as that processing wants them; or of `side` pixels, by the set's own normalisation.
  Split images(const images::ImageProcessing& processing) const;
  Split images(int64_t side) const;

 private:
  base::Path folder_;
  std::string part_;
  std::shared_ptr<const TokenSet> tokens_;
  std::shared_ptr<const ImageSet> images_;
};

}  // namespace hyperion::data

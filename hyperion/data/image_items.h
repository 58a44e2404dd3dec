// The images that a set is made of, one after the other, as the bytes of their files.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/data/cifar_files.h"
#include "hyperion/data/image_folder.h"
#include "hyperion/records/bad_records.h"

namespace hyperion::data {

struct ImageItem {
  std::string name, bytes;
  int64_t label = 0;
  bool of_validation = false;             // from a list or shard of validation images
  std::optional<records::BadRecord> bad;  // in place of an image that cannot be had
  bool is_raw = false;                    // the bytes are a raw record of a set, not those of a file
};

class ImageItems {
 public:
  virtual ~ImageItems() = default;
  virtual bool next(ImageItem& item) = 0;  // false at the end
  virtual void skip(int64_t count) = 0;    // as many calls of next, without their work where that can be
};

// The files of both lists. They are read as they come.
std::unique_ptr<ImageItems> items_of_lists(const ImageSplit& lists);

// Tar shards as WebDataset writes them, plain or compressed: members one after the other whose names are the same up to
// the first dot are a sample; .jpg, .jpeg or .png is its image, .cls its label in digits. Others are passed over.
inline constexpr int64_t kMostLabel = 999'999;
std::unique_ptr<ImageItems> items_of_shards(std::vector<base::Path> training, std::vector<base::Path> validation);

// The images of CIFAR's binary files. The layout must outlive them.
std::unique_ptr<ImageItems> items_of_cifar(const CifarLayout& layout);

}  // namespace hyperion::data

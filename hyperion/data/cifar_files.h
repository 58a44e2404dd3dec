// CIFAR-10 and CIFAR-100 in their binary form: a folder with data_batch_1.bin ... and test_batch.bin, or train.bin and
// test.bin.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/images/pixels.h"

namespace hyperion::data {

inline constexpr int64_t kCifarSide = 32;

struct CifarLayout {
  int64_t label_bytes = 1;  // the last one counts
  std::vector<std::string> classes;
  std::vector<base::Path> train, test;
};
// Throws ConfigError where the folder is neither. Classes have the names that the folder's own list gives them.
CifarLayout cifar_layout(const base::Path& folder);

class CifarFile {
 public:
  // Throws CorruptError where it is not a whole number of images, or empty.
  CifarFile(const base::Path& path, const CifarLayout& layout);

  int64_t images() const { return static_cast<int64_t>(file_.bytes().size()) / record_; }
  int64_t label(int64_t index) const;  // as it is written
  images::Pixels pixels(int64_t index) const;
  // Throws CorruptError for the first label that is no class.
  void check_labels() const;

 private:
  const unsigned char* record(int64_t index) const;
  base::Path path_;
  base::MappedFile file_;
  int64_t label_bytes_, record_, classes_;
};

}  // namespace hyperion::data

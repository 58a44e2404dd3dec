// Images of folders or tar shards made into a set: each is decoded whole once, by all cores, so that nothing damaged
// gets in, and kept in the order of the files.
#pragma once
#include "hyperion/data/image_items.h"
#include "hyperion/data/preparation.h"
#include "hyperion/data/prepare_config.h"

namespace hyperion::data {

struct ImageRecipe {
  ImageSplit lists;                              // of a folder
  std::vector<base::Path> training, validation;  // or tar shards
  std::optional<CifarLayout> cifar;              // or CIFAR's files
  bool raw = false;                              // decoded and made smaller; else the bytes of the files as they are
  int64_t side = 256;                            // raw: pixels of the shorter side; a smaller image stays as it is
  std::vector<records::BadRecord> bad_lines;     // of its lists
  records::OnBad on_bad = records::OnBad::fail;
  int64_t bad_limit = 0;
  double held_out = 0, safe_seconds = 0;

  bool has_shards() const { return !training.empty(); }
  std::vector<base::Path> inputs() const;
  std::string digest() const;  // of what the inputs' bytes do not tell: which file has which label
};
// Lists what prepare.files names: one folder, or tar shards.
ImageRecipe image_recipe(const PrepareConfig& config);

PrepareSummary prepare_images(base::FileSystem& files, const ImageRecipe& recipe, Preparation& preparation, int threads,
                              const OnPrepare& progress);

}  // namespace hyperion::data

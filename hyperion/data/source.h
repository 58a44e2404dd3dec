// Where samples come from: each is a run of tokens, found by its index alone, so that a position in the data is one
// number.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/data/augment_config.h"

namespace hyperion::base {
class Settings;
}

namespace hyperion::data {

struct DataConfig {
  std::string source = "sums", path;
  int64_t digits = 3, sums = 200'000, images = 50'000;
  double validation = 0.05;
  AugmentConfig augment;
};
void describe(base::Settings& settings, DataConfig& config);
void check(const DataConfig& config);

class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t samples() const = 0;
  // Writes out.size() consecutive tokens of sample `index` in [0, samples()).
  virtual void read(int64_t index, std::span<int64_t> out) const = 0;
};

struct Question {
  std::string prompt, answer;  // the model is right when it continues the prompt with exactly the answer
};

class ImageSource;

// Both halves of a data set, disjoint: of tokens, or of images.
struct Split {
  std::unique_ptr<Source> train, validation;
  std::unique_ptr<ImageSource> train_images, validation_images;
  std::vector<Question> questions;  // held out too; empty where the data has none

  Split();
  Split(Split&&) noexcept;
  Split& operator=(Split&&) noexcept;
  ~Split();
};
bool has_images(const DataConfig& config);

// What samples should be: sequences of `length` tokens (samples hold length + 1), or images of `side` pixels where the
// source can choose.
struct SampleSize {
  int64_t length = 0, side = 0;
};
Split open_data(const DataConfig& config, SampleSize size, uint64_t seed);

}  // namespace hyperion::data

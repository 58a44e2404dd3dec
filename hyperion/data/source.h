// Where samples come from: each is a run of tokens, found by its index alone, so that a position in the data is one
// number.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/data/order.h"
#include "hyperion/images/augment_config.h"

namespace hyperion::base {
class Settings;
}

namespace hyperion::data {

enum class SourceKind { sums, text, prepared, shapes, cifar, images };
constexpr auto words_of(SourceKind) { return std::array{"sums", "text", "prepared", "shapes", "cifar", "images"}; }

// The ways to cut the documents of a set into samples.
enum class Packing {
  stream,  // all documents as one row of tokens, cut every `length`
  whole,   // whole documents, fitted into rows by their lengths
  single,  // one document a sample
};
constexpr auto words_of(Packing) { return std::array{"stream", "whole", "single"}; }

// Of documents that have more tokens than a sample, where they are not a stream.
enum class TooLong {
  split,     // go on in samples of their own
  truncate,  // lose what is beyond
  drop,      // are left out
};
constexpr auto words_of(TooLong) { return std::array{"split", "truncate", "drop"}; }

struct DataConfig {
  SourceKind source = SourceKind::sums;
  Packing packing = Packing::stream;
  TooLong too_long = TooLong::split;
  std::vector<std::string> path, weights;
  bool reset = false;
  int64_t digits = 3, sums = 200'000, images = 50'000, limit = 0, threads = 0;
  double validation = 0.05;
  images::AugmentConfig augment;
};
void describe(base::Settings& settings, DataConfig& config);
void check(const DataConfig& config);

// A sample on its way into a batch. The two below are as long as the tokens, or empty where nobody asks; they come as
// all ones and all zeros, and a source may leave them so.
struct TokenRow {
  std::span<int64_t> tokens;
  std::span<uint8_t> loss_mask;    // 1: counts as a target
  std::span<int64_t> segment_ids;  // which one the token belongs to, its tokens together; -1: padding
};

// What became of the documents of a source that keeps them apart.
struct Cut {
  int64_t documents = 0;  // 0: it does not
  int64_t too_long = 0;   // of them, for a sample
  int64_t unlearned = 0;  // rows left out, as nothing would be learned of them
};

class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t samples() const = 0;
  virtual int64_t vocabulary() const { return 256; }  // one more than the highest token there can be
  virtual Cut cut() const { return {}; }
  virtual bool pads() const { return false; }  // whether samples may end in padding
  // Writes the first row.tokens.size() tokens, at most length + 1, of sample `index` in [0, samples()).
  virtual void read(int64_t index, const TokenRow& row) const = 0;
};

struct Question {
  std::string prompt, answer;  // the model is right when it continues the prompt with exactly the answer
};

class ImageSource;

// Ends the digest of data whose documents are fitted into rows.
inline constexpr const char* kFitted = "-fitted";

// Both halves of a data set, disjoint: of tokens, or of images.
struct Split {
  std::unique_ptr<Source> train, validation;
  std::unique_ptr<ImageSource> train_images, validation_images;
  std::vector<int64_t> sets;        // of train: how many samples of each set stand one after the other; empty: one set
  std::vector<double> weights;      // of the sets; empty: by their sizes
  int64_t limit = 0;                // samples of train that are used, the first; 0: all
  std::string digest;               // tells this data from any other
  std::string older_digest;         // what older versions told it by, where that was less; else empty
  std::vector<Question> questions;  // held out too; empty where the data has none
  std::string passed_over;          // what of the files could not be taken, in words; empty: nothing

  Split();
  Split(Split&&) noexcept;
  Split& operator=(Split&&) noexcept;
  ~Split();
  bool is_of(const std::string& digest_of_checkpoint) const;
  // Throws ConfigError where a version that put documents into rows in their order had the checkpoint's samples.
  void check_fitted(const std::string& digest_of_checkpoint) const;
  Order order(uint64_t seed) const;  // of the training samples
};
std::vector<double> weights_of(const DataConfig& config);

// What samples should be: sequences of `length` tokens (samples hold length + 1), or images of `side` pixels where the
// source can choose.
struct SampleSize {
  int64_t length = 0, side = 0;
};

}  // namespace hyperion::data

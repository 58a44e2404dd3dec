// Trains byte-level BPE: counts the pieces of a text, then merges the most frequent pair of neighbours again and again.
// Of equally frequent pairs the one with the lower ids goes first, so that the same text gives the same tokenizer, and
// the one `tokenizers` trains.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/tokenizers/scanner.h"
#include "hyperion/tokenizers/token_model.h"

namespace hyperion::tokenizers {

struct BpeTrainerOptions {
  Pattern pattern = Pattern::kGpt2;  // not kCl100k, whose expression `tokenizers` reads otherwise
  int64_t vocabulary = 32'000;       // tokens in all: special ones, 256 bytes, merges
  int64_t min_frequency = 0;         // a pair that is rarer is not merged
  std::vector<std::string> special;  // these have the first ids
};

class BpeTrainer {
 public:
  // Throws ConfigError when the vocabulary has no room for the special tokens and the bytes.
  explicit BpeTrainer(BpeTrainerOptions options);

  // Counts the pieces of one text; texts do not touch. Bytes that are not UTF-8 are not counted.
  void add(std::string_view text);

  // The tokenizer.json of what was trained. `progress`, where given, is told how many tokens there are so far.
  std::string train(const std::function<void(int64_t)>& progress = {}) const;

 private:
  BpeTrainerOptions options_;
  std::unordered_map<std::string, int64_t, StringHash, std::equal_to<>> pieces_;
};

}  // namespace hyperion::tokenizers

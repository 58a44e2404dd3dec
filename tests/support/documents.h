// Documents that share rows, as data.packing = whole has them of a prepared set: each counts up from a token of its
// own, so that there is something to learn, and behind the last one is padding.
#pragma once
#include <memory>
#include <random>

#include "hyperion/data/source.h"

namespace hyperion::testing {

class Documents final : public data::Source {
 public:
  Documents(int64_t rows, int64_t longest, int64_t vocabulary)
      : rows_(rows), longest_(longest), vocabulary_(vocabulary) {}
  int64_t samples() const override { return rows_; }
  int64_t vocabulary() const override { return vocabulary_; }
  bool pads() const override { return true; }
  void read(int64_t index, const data::TokenRow& row) const override {
    std::minstd_rand random(static_cast<unsigned>(index + 1));
    const auto size = std::ssize(row.tokens);
    int64_t at = 0;
    for (int64_t document = 0;; ++document) {
      const int64_t count = 2 + static_cast<int64_t>(random()) % (longest_ - 1);
      if (at + count > size) break;
      const auto first = static_cast<int64_t>(random());
      for (const int64_t begin = at; at < begin + count; ++at) {
        row.tokens[at] = (first + at - begin) % vocabulary_;
        if (!row.segment_ids.empty()) row.segment_ids[at] = document;
      }
    }
    for (; at < size; ++at) {
      row.tokens[at] = 0;
      if (!row.segment_ids.empty()) row.segment_ids[at] = -1, row.loss_mask[at] = 0;
    }
  }

 private:
  int64_t rows_, longest_, vocabulary_;
};

// Half a row's tokens, at most, are one document's.
inline data::Split split_of_documents(int64_t length, int64_t vocabulary) {
  data::Split split;
  split.train = std::make_unique<Documents>(1000, length / 2, vocabulary);
  split.validation = std::make_unique<Documents>(40, length / 2, vocabulary);
  return split;
}

}  // namespace hyperion::testing

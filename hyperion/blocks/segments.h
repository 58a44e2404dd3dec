// Documents that lie behind each other in the rows of a batch, told by where each begins: none sees another.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace hyperion::blocks {

class Segments {
 public:
  Segments() = default;  // each row is one document
  // int32 [batch, queries]: of a query, the key of its row where its document begins. Where a cache holds earlier keys,
  // they count from the cache's first. A document's tokens lie together. `most`: documents in any row, at most, as who
  // made the batch knows and a GPU could not say without being waited for; 0: not known.
  explicit Segments(at::Tensor starts, int64_t most = 0);

  bool defined() const { return starts_.defined(); }
  const at::Tensor& starts() const { return starts_; }

  // Which of `keys` keys a query sees: those of its own document; causal, of them those up to its own place, the last
  // `window` of these where it is above 0. What is not causal has as many queries as keys.
  struct Sight {
    int64_t keys = 0;
    bool causal = true;
    int64_t window = 0;
    bool operator==(const Sight&) const = default;
  };
  // Where each document begins among the tokens of all rows, behind each other, and at last their count: int32
  // [rows x most + 1]; documents that are not there are empty. What kernels over variable lengths take. Undefined where
  // `most` is not known. Made once, as the dense forms are.
  at::Tensor bounds() const;
  // The dense forms, for what computes with nothing less: bool [batch, 1, queries, keys], true where a query sees a
  // key; and 0 or -inf, to be added to scores of a type. Made when first asked for and kept, by copies too, so that the
  // layers of a pass share one. From one thread at a time.
  at::Tensor visible(const Sight& sight) const;
  at::Tensor added_to_scores(const Sight& sight, at::ScalarType type) const;

 private:
  struct Made;
  at::Tensor starts_;
  int64_t most_ = 0;
  std::shared_ptr<Made> made_;
};

// Of starts as above, on the CPU: how many documents the row with the most has.
int64_t most_documents(const at::Tensor& starts);

}  // namespace hyperion::blocks

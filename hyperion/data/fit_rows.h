// Documents into rows that hold several: best fit, longest first.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace hyperion::data {

struct FittedRows {
  std::vector<int32_t> documents;  // row after row, those of a row in the order they were given
  std::vector<int32_t> begins;     // of each row there, and the end
  int64_t emptiest = 0;            // the row with the most room left: more documents would fill it

  int64_t count() const { return std::ssize(begins) - 1; }
  std::span<const int32_t> operator[](int64_t row) const {
    return std::span(documents).subspan(begins[row], begins[row + 1] - begins[row]);
  }
};

// Documents of `sizes` tokens, 1 to `room`, in rows of `room`: each, the longest first, in the row with the least room
// that holds it. Rows come in the order of their longest documents, so that any first part of them is a fair one.
FittedRows fit_rows(std::span<const int64_t> sizes, int64_t room);

// Whether so many documents, of so many tokens in all, are enough to be fitted at once: more of them fill rows no
// better, once the documents of the emptiest row are fitted with those that follow.
bool fill_window(int64_t documents, int64_t tokens, int64_t room);

}  // namespace hyperion::data

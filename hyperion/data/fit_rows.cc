#include "hyperion/data/fit_rows.h"

#include <algorithm>
#include <numeric>

#include "hyperion/base/error.h"

namespace hyperion::data {
namespace {

constexpr int64_t kWindowDocuments = 4096, kWindowRows = 64;

// A size or room, and of which document or row it is: sorted by the first.
uint64_t keyed(int64_t size, int64_t index) { return static_cast<uint64_t>(size) << 32 | static_cast<uint64_t>(index); }
int32_t index_of(uint64_t key) { return static_cast<int32_t>(key & UINT32_MAX); }

std::vector<uint64_t> longest_first(std::span<const int64_t> sizes, int64_t room) {
  std::vector<uint64_t> keys(sizes.size());
  for (int64_t i = 0; i < std::ssize(sizes); ++i) {
    HYPERION_CHECK(sizes[i] > 0 && sizes[i] <= room, "a document fits in a row");
    keys[i] = keyed(room - sizes[i], i);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

bool fill_window(int64_t documents, int64_t tokens, int64_t room) {
  return documents >= kWindowDocuments && tokens / room >= kWindowRows;
}

FittedRows fit_rows(std::span<const int64_t> sizes, int64_t room) {
  HYPERION_CHECK(room <= INT32_MAX && sizes.size() <= INT32_MAX, "sizes and numbers of documents fit in 32 bits");
  std::vector<uint64_t> rooms;  // of each row begun, the least first
  std::vector<int32_t> row_of(sizes.size()), longest;
  for (const uint64_t key : longest_first(sizes, room)) {
    const int32_t document = index_of(key);
    auto at = std::lower_bound(rooms.begin(), rooms.end(), keyed(sizes[document], 0));
    if (at == rooms.end()) {
      at = rooms.insert(at, keyed(room, std::ssize(longest)));
      longest.push_back(document);
    }
    row_of[document] = index_of(*at);
    const uint64_t left = *at - keyed(sizes[document], 0);
    const auto to = std::lower_bound(rooms.begin(), at, left);
    std::move_backward(to, at, at + 1);
    *to = left;
  }

  std::vector<int32_t> rows(longest.size()), place(longest.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) { return longest[a] < longest[b]; });
  FittedRows fitted{std::vector<int32_t>(sizes.size()), {0}};
  for (const int32_t row : row_of) ++place[row];
  for (const int32_t row : rows) {
    if (row == index_of(rooms.back())) fitted.emptiest = fitted.count();
    fitted.begins.push_back(fitted.begins.back() + place[row]);
    place[row] = *(fitted.begins.end() - 2);
  }
  for (int32_t document = 0; document < std::ssize(sizes); ++document)
    fitted.documents[place[row_of[document]]++] = document;
  return fitted;
}

}  // namespace hyperion::data

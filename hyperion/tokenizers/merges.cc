#include "hyperion/tokenizers/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "hyperion/base/error.h"

namespace hyperion::tokenizers {

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(2 * merges + 2)), mask_(slots_.size() - 1), shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  HYPERION_CHECK(2 * ++used_ <= slots_.size(), "the table was made for so many merges");
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & mask_;
  if (slots_[slot].key == kFree) slots_[slot] = {key, merge};
}

size_t MergeTable::merge_short(std::span<int32_t> symbols, text::ByteRange* ranges) const {
  HYPERION_CHECK(symbols.size() <= kShort, "a long run goes through merge_long");
  std::array<Merge, kShort> next;  // next[i]: the merge of symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) next[i] = find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (next[i].rank < next[best].rank) best = i;
    if (next[best].rank == kNone) break;
    symbols[best] = next[best].id;
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(count),
              symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    if (ranges != nullptr) {
      ranges[best].end = ranges[best + 1].end;
      std::copy(ranges + best + 2, ranges + count, ranges + best + 1);
    }
    --count;
    if (best + 1 < count) {
      std::copy(next.begin() + best + 2, next.begin() + count, next.begin() + best + 1);
      next[best] = find(symbols[best], symbols[best + 1]);
    }
    if (best > 0) next[best - 1] = find(symbols[best - 1], symbols[best]);
  }
  return count;
}

namespace {

// A doubly linked list of symbols by position, and a heap of (rank, position) whose stale entries are skipped.
class LongRun {
 public:
  LongRun(const MergeTable& table, std::span<int32_t> symbols, text::ByteRange* ranges)
      : table_(table), symbols_(symbols), ranges_(ranges) {
    HYPERION_CHECK(symbols.size() < size_t{1} << 31, "positions have 31 bits");
    const auto count = static_cast<int32_t>(symbols.size());
    left_.resize(count);
    right_.resize(count);
    merge_.resize(count);
    heap_.reserve(count);
    for (int32_t i = 0; i < count; ++i) {
      left_[i] = i - 1;
      right_[i] = i + 1 < count ? i + 1 : -1;
      if (i + 1 < count) merge_[i] = table.find(symbols[i], symbols[i + 1]);
      if (merge_[i].rank != MergeTable::kNone) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  size_t merge_all() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint64_t top = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<int32_t>(top & 0x7FFFFFFF);
      if (merge_[at].rank == static_cast<int32_t>(top >> 31)) join(at);
    }
    size_t count = 0;
    for (int32_t at = symbols_.empty() ? -1 : 0; at >= 0; at = right_[at]) {
      if (ranges_ != nullptr) ranges_[count] = ranges_[at];
      symbols_[count++] = symbols_[at];
    }
    return count;
  }

 private:
  uint64_t entry(int32_t at) const { return static_cast<uint64_t>(merge_[at].rank) << 31 | static_cast<uint64_t>(at); }

  void look(int32_t at) {
    merge_[at] = right_[at] < 0 ? MergeTable::Merge{} : table_.find(symbols_[at], symbols_[right_[at]]);
    if (merge_[at].rank == MergeTable::kNone) return;
    heap_.push_back(entry(at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void join(int32_t at) {
    const int32_t gone = right_[at];
    symbols_[at] = merge_[at].id;
    if (ranges_ != nullptr) ranges_[at].end = ranges_[gone].end;
    right_[at] = right_[gone];
    if (right_[at] >= 0) left_[right_[at]] = at;
    merge_[gone] = {};
    look(at);
    if (left_[at] >= 0) look(left_[at]);
  }

  const MergeTable& table_;
  std::span<int32_t> symbols_;
  text::ByteRange* ranges_;  // null: not wanted
  std::vector<int32_t> left_, right_;
  std::vector<MergeTable::Merge> merge_;  // of the symbol at a position and its right neighbour
  std::vector<uint64_t> heap_;
};

}  // namespace

size_t MergeTable::merge_long(std::span<int32_t> symbols, text::ByteRange* ranges) const {
  return LongRun(*this, symbols, ranges).merge_all();
}

}  // namespace hyperion::tokenizers

// The merges of byte pair encoding over token ids: the pair with the lowest rank first, of equals the leftmost, until
// none is left.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

class MergeTable {
 public:
  static constexpr int32_t kNone = INT32_MAX;
  struct Merge {
    int32_t rank = kNone, id = -1;
  };

  explicit MergeTable(size_t merges = 0);
  // The first rank given to a pair stays.
  void add(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return {};
    }
  }

  // Both give the same; the first is quadratic and for short runs, the second costs n log n. They change `symbols` in
  // place and return how many are left. `ranges`, where given, are of as many symbols, and merge with them.
  size_t merge_short(std::span<int32_t> symbols, text::ByteRange* ranges = nullptr) const;
  size_t merge_long(std::span<int32_t> symbols, text::ByteRange* ranges = nullptr) const;
  size_t merge(std::span<int32_t> symbols, text::ByteRange* ranges = nullptr) const {
    return symbols.size() <= kShort ? merge_short(symbols, ranges) : merge_long(symbols, ranges);
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr size_t kShort = 96;
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return key * 0x9E3779B97F4A7C15u >> shift_; }

  std::vector<Slot> slots_;
  size_t mask_ = 0, used_ = 0;
  int shift_ = 63;  // leaves the bits of a slot's number
};

}  // namespace hyperion::tokenizers

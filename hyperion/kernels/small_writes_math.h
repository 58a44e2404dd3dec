// The raw entry point of a few small writes in one launch.
#pragma once
#include <cstdint>

namespace hyperion::kernels {

constexpr int kSmallWrites = 8, kSmallWords = 32;

struct SmallWrite {
  void* to;
  const void* from;  // null: the list's own words, from `word` on
  int64_t bytes;
  int word;
};

struct SmallWriteList {
  SmallWrite writes[kSmallWrites];
  uint32_t words[kSmallWords];
  int count, used;  // writes; words
};

void small_writes_gpu(const SmallWriteList& list, void* stream);

}  // namespace hyperion::kernels

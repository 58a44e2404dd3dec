// Bytes of a text, from `begin` up to `end`.
#pragma once
#include <cstddef>

namespace hyperion::text {

struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace hyperion::text

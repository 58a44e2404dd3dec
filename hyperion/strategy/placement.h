// Which part of a tensor a process holds. Plain data.
#pragma once
#include <cstdint>
#include <vector>

namespace hyperion::strategy {

// All of it, or a flat stretch that other processes complete.
struct Placement {
  std::vector<int64_t> whole = {};  // the shape of the tensor that is cut
  int64_t begin = -1;               // of the stretch, in the flattened whole; -1: all is held
  bool cut() const { return begin >= 0; }
};

}  // namespace hyperion::strategy

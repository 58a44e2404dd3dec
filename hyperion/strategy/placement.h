// Which part of a tensor a process holds, and what two such parts have in common. Plain data.
#pragma once
#include <cstdint>
#include <vector>

namespace hyperion::strategy {

// All of it; or a box, of which other processes have the rest; or of a box, or of all, a stretch.
struct Placement {
  std::vector<int64_t> whole = {};              // the shape of the tensor that is cut
  int64_t begin = -1;                           // of the stretch, in the flattened box; -1: the box is held whole
  std::vector<int64_t> offset = {}, size = {};  // of the box, by dim; empty: it is the tensor
  // Above 1: the tensor is of so many equal parts along `dim`, and of each a box of that size at that offset is held,
  // side by side.
  int64_t parts = 1, dim = 0;
  bool again = false;   // another process of the model has the same, and answers for it
  bool expert = false;  // spread by expert parallelism: only Mesh::expert_copies have it
  bool cut() const { return begin >= 0 || !offset.empty(); }
};

// Elements [whole, whole + count) of the flattened tensor are elements [held, held + count) of what is held.
struct Run {
  int64_t whole, held, count;
};
// Of a part of `count` elements, in the order they lie; neighbours are joined.
std::vector<Run> runs_of(const Placement& placement, int64_t count);

// Elements [from, from + count) of one part are elements [to, to + count) of another.
struct Overlap {
  int64_t from, to, count;
};
std::vector<Overlap> overlaps_of(const std::vector<Run>& from, const std::vector<Run>& to);

}  // namespace hyperion::strategy

#include "hyperion/strategy/placement.h"

#include <algorithm>

namespace hyperion::strategy {
namespace {

// The rows of a box: what lies together in the tensor too.
class Rows {
 public:
  explicit Rows(const Placement& placement) : placement_(placement) {
    outer_ = placement.whole.size();
    while (outer_ > 0) {
      --outer_;
      length_ *= placement.size[outer_];
      if (placement.size[outer_] != placement.whole[outer_] || parts(outer_) > 1) break;
    }
  }
  int64_t length() const { return length_; }
  // Where row `index` begins in the tensor.
  int64_t place(int64_t index) const {
    const auto& whole = placement_.whole;
    std::vector<int64_t> at = placement_.offset;
    if (outer_ < whole.size()) at[outer_] += take(index, parts(outer_)) * apart(outer_);
    for (size_t dim = outer_; dim-- > 0;) {
      at[dim] += take(index, placement_.size[dim]);
      at[dim] += take(index, parts(dim)) * apart(dim);
    }
    int64_t place = 0;
    for (size_t dim = 0; dim < whole.size(); ++dim) place = place * whole[dim] + at[dim];
    return place;
  }

 private:
  static int64_t take(int64_t& index, int64_t digits) {
    const int64_t digit = index % digits;
    index /= digits;
    return digit;
  }
  int64_t parts(size_t dim) const { return static_cast<int64_t>(dim) == placement_.dim ? placement_.parts : 1; }
  int64_t apart(size_t dim) const { return placement_.whole[dim] / placement_.parts; }

  const Placement& placement_;
  size_t outer_ = 0;  // dims that count rows
  int64_t length_ = 1;
};

}  // namespace

std::vector<Run> runs_of(const Placement& placement, int64_t count) {
  const int64_t begin = std::max<int64_t>(placement.begin, 0);
  if (count == 0) return {};
  if (placement.offset.empty()) return {{begin, 0, count}};
  const Rows rows(placement);
  std::vector<Run> runs;
  for (int64_t at = begin; at < begin + count;) {
    const int64_t inside = at % rows.length();
    const int64_t length = std::min(rows.length() - inside, begin + count - at);
    const int64_t whole = rows.place(at / rows.length()) + inside;
    if (!runs.empty() && runs.back().whole + runs.back().count == whole)
      runs.back().count += length;
    else
      runs.push_back({whole, at - begin, length});
    at += length;
  }
  return runs;
}

std::vector<Overlap> overlaps_of(const std::vector<Run>& from, const std::vector<Run>& to) {
  std::vector<Overlap> list;
  for (size_t i = 0, j = 0; i < from.size() && j < to.size();) {
    const Run &a = from[i], &b = to[j];
    const int64_t begin = std::max(a.whole, b.whole), end = std::min(a.whole + a.count, b.whole + b.count);
    if (begin < end) list.push_back({a.held + begin - a.whole, b.held + begin - b.whole, end - begin});
    a.whole + a.count < b.whole + b.count ? ++i : ++j;
  }
  return list;
}

}  // namespace hyperion::strategy

#include "hyperion/strategy/automatic_layout.h"

namespace hyperion::strategy {
namespace {

constexpr int64_t kLongSample = 16384, kManyProcesses = 16;

// Of dp and cp those that share out the experts, the most first; the last: none do.
std::vector<int64_t> expert_shares(int64_t sharers, int64_t experts) {
  std::vector<int64_t> shares;
  for (const int64_t share : {8, 4, 2})
    if (experts > 0 && sharers % share == 0 && experts % share == 0) shares.push_back(share);
  shares.push_back(1);
  return shares;
}

}  // namespace

std::vector<Layout> automatic_layouts(int64_t processes, const LayoutHints& hints) {
  struct Cut {
    int64_t pp, tp;
  };
  std::vector<Layout> layouts;
  const bool by_tokens = hints.tokens >= kLongSample && processes >= kManyProcesses;
  for (const auto [pp, tp] : {Cut{2, 2}, {2, 1}, {1, 2}, {2, 4}, {4, 2}, {4, 4}, {2, 8}, {4, 8}, {8, 8}, {1, 1}})
    for (const int64_t cp : {2, 1}) {
      if (processes % (pp * tp * cp) != 0 || (cp > 1 && !by_tokens)) continue;
      const int64_t dp = processes / (pp * tp * cp);
      for (const int64_t ep : expert_shares(dp * cp, hints.experts))
        layouts.push_back({.pp = pp, .dp_shard = dp, .cp = cp, .tp = tp, .ep = ep});
    }
  return layouts;
}

}  // namespace hyperion::strategy

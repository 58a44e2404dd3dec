#include "hyperion/strategy/expert_parallel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::strategy {

using base::format;

int64_t expert_capacity(const ExpertUse& use, int64_t tokens) {
  if (use.capacity <= 0) return 0;
  const double fair = static_cast<double>(tokens * use.choices) / static_cast<double>(use.experts);
  return std::clamp<int64_t>(std::llround(std::ceil(use.capacity * fair)), 1, tokens);
}

int64_t expert_rows(const ExpertUse& use, int64_t tokens) {
  return use.capacity > 0 ? use.experts * expert_capacity(use, tokens) : tokens * use.choices;
}

namespace {

[[noreturn]] void refuse(const Layout& layout, const std::string& what, const Layout& instead) {
  throw base::ConfigError(format("parallel.layout = \"{}\" {}", layout.text(), what), format("use {}", instead.text()));
}

// The largest ep below or at the layout's that divides them.
Layout with_divisor(const Layout& layout, int64_t number) {
  auto other = layout;
  while (number % other.ep != 0) --other.ep;
  return other;
}

}  // namespace

void check_expert_processes(const Layout& layout) {
  if (layout.ep == 1) return;
  const int64_t sharers = layout.dp_shard * layout.cp;
  auto other = layout;
  if (layout.dp_replicate > 1) {
    other.dp_replicate = 1, other.dp_shard = layout.dp();
    refuse(layout, format("holds what zero cuts {} times, which cannot be had with ep yet", layout.dp_replicate),
           other);
  }
  if (sharers % layout.ep == 0) return;
  other.dp_shard = std::lcm(sharers, layout.ep) / layout.cp;
  refuse(layout,
         format("shares out experts among {} of the {} process{} of dp and cp, which {} does not divide", layout.ep,
                sharers, sharers == 1 ? "" : "es", layout.ep),
         sharers < layout.ep ? other : with_divisor(layout, sharers));
}

void check_experts(const Layout& layout, const std::vector<CutRule>& rules) {
  if (layout.ep == 1) return;
  check_expert_processes(layout);
  const auto rule = std::find_if(rules.begin(), rules.end(), [](const CutRule& each) { return each.experts > 0; });
  if (rule == rules.end()) refuse(layout, "shares out experts, and this model has none", with_divisor(layout, 1));
  const int64_t experts = rule->experts;
  if (experts % layout.ep != 0)
    refuse(layout, format("shares out the {} experts of a layer, and {} does not divide them", experts, layout.ep),
           with_divisor(layout, std::gcd(experts, layout.dp_shard * layout.cp)));
}

}  // namespace hyperion::strategy

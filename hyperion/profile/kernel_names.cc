#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "hyperion/profile/trace.h"

namespace hyperion::profile {

std::string short_kernel_name(const std::string& name) {
  std::string out;
  int depth = 0;  // of template arguments
  std::string_view rest = name;
  if (rest.starts_with("void ")) rest.remove_prefix(5);
  for (size_t i = 0; i < rest.size(); ++i) {
    constexpr std::string_view kUnnamed = "(anonymous namespace)::";
    if (rest.substr(i).starts_with(kUnnamed)) {
      i += kUnnamed.size() - 1;
    } else if (rest[i] == '<') {
      ++depth;
    } else if (rest[i] == '>') {
      depth = std::max(0, depth - 1);
    } else if (rest[i] == '(' && depth == 0) {
      break;
    } else if (depth == 0) {
      out += rest[i];
    }
  }
  return out;
}

std::vector<KernelTotal> kernel_totals(const std::vector<Span>& spans) {
  std::vector<KernelTotal> totals;
  std::unordered_map<std::string, size_t> places;
  std::unordered_map<std::string, std::string> shortened;
  for (const auto& span : spans) {
    auto [known, added] = shortened.try_emplace(span.name);
    if (added) known->second = short_kernel_name(span.name);
    const auto [place, first] = places.try_emplace(known->second, totals.size());
    if (first) totals.push_back({known->second, 0, 0});
    auto& total = totals[place->second];
    total.count += !span.continued;
    total.milliseconds += static_cast<double>(span.end - span.begin) / 1e6;
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const KernelTotal& a, const KernelTotal& b) { return a.milliseconds > b.milliseconds; });
  return totals;
}

}  // namespace hyperion::profile

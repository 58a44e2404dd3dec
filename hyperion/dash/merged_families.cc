#include "hyperion/dash/merged_families.h"

#include <algorithm>

namespace hyperion::dash {

void MergedFamilies::add(std::string_view text) {
  Family* family = nullptr;
  while (!text.empty()) {
    const auto line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    constexpr std::string_view kHelp = "# HELP ";
    if (line.starts_with(kHelp)) {
      const std::string name(line.substr(kHelp.size(), line.find(' ', kHelp.size()) - kHelp.size()));
      if (!families_.contains(name)) order_.push_back(name), families_[name].head = line;
      family = &families_[name];
    } else if (family == nullptr) {
      continue;
    } else if (!line.starts_with('#')) {
      family->samples += line;
    } else if (family->samples.empty()) {
      family->head += line;
    }
  }
}

std::string MergedFamilies::text() const {
  std::string out;
  for (const auto& name : order_) out += families_.at(name).head + families_.at(name).samples;
  return out;
}

}  // namespace hyperion::dash

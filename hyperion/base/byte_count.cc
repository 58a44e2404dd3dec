#include "hyperion/base/byte_count.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace hyperion::base {

std::optional<int64_t> byte_count(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' ') == unit.npos ? unit.size() : unit.find_first_not_of(' '));
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::pair<const char*, double> units[] = {{"b", 1},        {"kb", 1e3},    {"mb", 1e6},   {"gb", 1e9},
                                                  {"k", 0x1p10},   {"m", 0x1p20},  {"g", 0x1p30}, {"kib", 0x1p10},
                                                  {"mib", 0x1p20}, {"gib", 0x1p30}};
  for (const auto& [name, size] : units)
    if (unit == name && error == std::errc{} && number > 0 && number * size < 0x1p62)
      return static_cast<int64_t>(number * size);
  return std::nullopt;
}

}  // namespace hyperion::base

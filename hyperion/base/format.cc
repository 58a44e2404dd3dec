#include "hyperion/base/format.h"

#include <fmt/format-inl.h>

#include <cmath>

// fmt's own library source is not shipped with LibTorch; these are the instantiations its headers expect to find in it.
template FMT_API auto fmt::detail::thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto fmt::detail::decimal_point_impl(locale_ref) -> char;
template FMT_API void fmt::detail::buffer<char>::append(const char*, const char*);

namespace hyperion::base {

std::string format_arguments(fmt::string_view pattern, fmt::format_args arguments) {
  return fmt::vformat(pattern, arguments);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string with_commas(int64_t count) {
  std::string digits = std::to_string(count);
  const int first = count < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string bytes_text(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  // From 1023.95 on, one decimal would show 1024.0 of the smaller unit.
  while (value >= (unit == 0 ? 1024 : 1023.95) && unit < 5) value /= 1024, ++unit;
  return unit == 0 ? format("{} B", bytes) : format("{:.1f} {}", value, units[unit]);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e15)) return "--:--";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return format("{:02}:{:02}", whole / 60, whole % 60);
  return format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace hyperion::base

// Text from values: fmt's format strings, checked at compile time, without fmt's large header.
#pragma once
#include <fmt/base.h>

#include <cstdint>
#include <string>

namespace hyperion::base {

std::string format_arguments(fmt::string_view pattern, fmt::format_args arguments);

template <class... T>
std::string format(fmt::format_string<T...> pattern, T&&... arguments) {
  return format_arguments(pattern.str, fmt::make_format_args(arguments...));
}

std::string first_line(const std::string& text);
std::string with_commas(int64_t count);     // 30768 -> "30,768"
std::string bytes_text(uint64_t bytes);     // 16207000000 -> "15.1 GiB"
std::string duration_text(double seconds);  // 190 -> "03:10", 4000 -> "1:06:40"

}  // namespace hyperion::base

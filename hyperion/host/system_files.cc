#include "hyperion/host/system_files.h"

#include <charconv>

#include "hyperion/base/error.h"

namespace hyperion::host {

std::optional<std::string> system_text(const base::Path& root, std::string_view path) {
  try {
    const std::string text = base::real_files().read(root / base::Path(path).relative_path());
    return std::string(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
  } catch (const base::FileError&) {
    return std::nullopt;
  }
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> system_number(const base::Path& root, std::string_view path) {
  const auto text = system_text(root, path);
  return text ? whole_number(trimmed(*text)) : std::nullopt;
}

int list_count(std::string_view list) {
  int64_t count = 0;
  for (const std::string& part : split(list, ',')) {
    const size_t dash = part.find('-');
    const auto first = whole_number(trimmed(std::string_view(part).substr(0, dash)));
    const auto last =
        dash == std::string::npos ? first : whole_number(trimmed(std::string_view(part).substr(dash + 1)));
    if (first && last && *last >= *first) count += *last - *first + 1;
  }
  return static_cast<int>(count);
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    if (at != 0) parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  }
  return parts;
}

}  // namespace hyperion::host

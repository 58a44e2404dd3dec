#include "hyperion/base/json_fault.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {

std::string named_kind(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> known[] = {{"object", "an object"},
                                                                     {"array", "a list"},
                                                                     {"string", "a string"},
                                                                     {"number", "a number"},
                                                                     {"boolean", "true or false"}};
  for (const auto& [word, name] : known)
    if (kind == word) return std::string(name);
  return std::string(kind);
}

}  // namespace

std::string json_fault(const std::exception& error) {
  std::string_view what = error.what();
  what.remove_prefix(std::min(what.size(), what.find("] ") + 2));  // the library's own mark
  constexpr std::string_view kKey = "key '", kMissing = "' not found", kType = "type must be ", kBut = ", but is ";
  if (what.starts_with(kKey) && what.ends_with(kMissing))
    return format("\"{}\" is missing", what.substr(kKey.size(), what.size() - kKey.size() - kMissing.size()));
  if (const size_t but = what.find(kBut); what.starts_with(kType) && but != what.npos)
    return format("where {} should be, there is {}", named_kind(what.substr(kType.size(), but - kType.size())),
                  named_kind(what.substr(but + kBut.size())));
  if (what.starts_with("cannot use "))
    return format("where an object or a list should be, there is {}", named_kind(what.substr(what.rfind(' ') + 1)));
  if (what.starts_with("array index ")) return "a list is too short";
  return "it is of another form";
}

}  // namespace hyperion::base

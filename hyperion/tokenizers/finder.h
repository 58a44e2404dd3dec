// What a pattern finds in a text.
#pragma once
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace hyperion::tokenizers {

// A stretch of a text: what a pattern found, or what lies between.
struct Stretch {
  size_t start, end;
  bool match;
};
using Finder = std::function<std::vector<Stretch>(std::string_view)>;  // stretches cover the whole text, in order

}  // namespace hyperion::tokenizers

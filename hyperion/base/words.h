// Enums that people write as words: in recipes, on the command line, in messages. The words stand beside the enum, in
// the order of its values, which count from 0:
//
//   enum class Crop { none, padded, resized };
//   constexpr auto words_of(Crop) { return std::array{"none", "padded", "resized"}; }
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace hyperion::base {

template <class Enum>
constexpr const char* word_of(Enum value) {
  return words_of(value).at(static_cast<size_t>(value));
}

template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view word) {
  const auto words = words_of(Enum{});
  for (size_t i = 0; i < words.size(); ++i)
    if (word == words[i]) return static_cast<Enum>(i);
  return {};
}

}  // namespace hyperion::base

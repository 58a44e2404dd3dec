// What a "pattern" of tokenizer.json can be here: a text looked for as it is, a regular expression that is known, or
// any other, through PCRE2.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/tokenizers/finder.h"
#include "hyperion/tokenizers/scanner.h"
#include "hyperion/tokenizers/traced_text.h"
#include "hyperion/tokenizers/unknown_component.h"

namespace hyperion::tokenizers {

// `json`: {"String": "..."} or {"Regex": "..."}. Throws CorruptError that names `place` and an expression that is not
// known.
Finder make_finder(const base::Json& json, const std::string& place);

// Each character that `wanted` takes is one match; the characters between two matches are one stretch.
Finder find_chars(std::function<bool(char32_t)> wanted);
// As find_chars, but neighbours are one match.
Finder find_runs(std::function<bool(char32_t)> wanted, size_t at_least = 1);
Finder find_text(std::string text);
Finder find_pieces(Pattern pattern);

// Every match replaced.
TracedText replaced(const TracedText& text, const Finder& finder, std::string_view by);
std::string replaced(std::string_view text, const Finder& finder, std::string_view by);

}  // namespace hyperion::tokenizers

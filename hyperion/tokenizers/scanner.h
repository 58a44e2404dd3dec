// Cuts text into the pieces that byte-level BPE works in, as the published regular expressions do, by hand-written
// scanners. One pass; no piece costs more than a few looks at each of its characters.
#pragma once
#include <optional>
#include <string_view>

#include "hyperion/text/unicode.h"

namespace hyperion::tokenizers {

enum class Pattern {
  kGpt2,
  kLlama3,  // also GPT-4's, as first published
  kQwen2,   // as Llama 3, digits one by one
  kCl100k,  // GPT-4's, as tiktoken has it: as Llama 3, but white space at the end of the text is one piece
  kO200k,   // GPT-4o's: words are also cut where lower case is followed by upper
};

std::optional<Pattern> pattern_named(std::string_view name);          // gpt2, llama3, qwen2, cl100k, o200k
std::optional<Pattern> pattern_of_expression(std::string_view text);  // a regular expression as tokenizer.json has it
std::string_view expression_of(Pattern pattern);                      // the regular expression as published

// Where the piece that starts at `at` ends. The text is valid UTF-8, and not at its end.
const char* piece_end(Pattern pattern, const text::ClassPages& pages, const char* at, const char* end);

// Whether a piece ends between the two characters around `at` whatever the rest of the text is: a letter, then a space
// and a letter.
bool always_cuts(std::string_view text, size_t at);

}  // namespace hyperion::tokenizers

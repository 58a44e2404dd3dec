// Unicode normal forms, as `tokenizers` computes them: with the characters of Unicode 9.
#pragma once
#include <string>
#include <string_view>

#include "hyperion/tokenizers/traced_text.h"

namespace hyperion::tokenizers {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Of valid UTF-8. Text that is plainly normal already is copied as it is.
TracedText normalized(const TracedText& text, NormalForm form);
std::string normalized(std::string_view text, NormalForm form);

bool is_mark(char32_t point);    // that stands on, in or around a letter
bool is_accent(char32_t point);  // of marks those without width of their own

extern const char* const kNormalFormTable;
extern const char* const kMarkTable;
extern const char* const kAccentTable;

}  // namespace hyperion::tokenizers

#include "hyperion/tokenizers/scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hyperion/tokenizers/normal_forms.h"

namespace hyperion::tokenizers {
namespace {

using Pieces = std::vector<std::string>;

Pieces cut(Pattern pattern, std::string_view text) {
  Pieces out;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    const char* stop = piece_end(pattern, text::class_pages(), at, text.data() + text.size());
    out.emplace_back(at, stop);
    at = stop;
  }
  return out;
}

TEST(Scanner, gpt2_keeps_a_space_with_the_word_after_it) {
  EXPECT_EQ(cut(Pattern::kGpt2, "It's 12  cats,\n\n ok "),
            (Pieces{"It", "'s", " 12", " ", " cats", ",", "\n\n", " ok", " "}));
  EXPECT_EQ(cut(Pattern::kGpt2, "DON'T x'lly"), (Pieces{"DON", "'", "T", " x", "'ll", "y"}));
}

TEST(Scanner, llama3_takes_three_digits_and_qwen2_one) {
  EXPECT_EQ(cut(Pattern::kLlama3, "a 1234567"), (Pieces{"a", " ", "123", "456", "7"}));
  EXPECT_EQ(cut(Pattern::kQwen2, "a 12"), (Pieces{"a", " ", "1", "2"}));
}

TEST(Scanner, llama3_ends_a_piece_after_line_breaks) {
  EXPECT_EQ(cut(Pattern::kLlama3, "x;\r\n\n  y \n z"), (Pieces{"x", ";\r\n\n", " ", " y", " \n", " z"}));
  EXPECT_EQ(cut(Pattern::kLlama3, "DON'T (ok)"), (Pieces{"DON", "'T", " (", "ok", ")"}));
}

TEST(Scanner, only_cl100k_takes_white_space_at_the_end_whole) {
  EXPECT_EQ(cut(Pattern::kLlama3, "a\n  "), (Pieces{"a", "\n", "  "}));
  EXPECT_EQ(cut(Pattern::kCl100k, "a\n  "), (Pieces{"a", "\n  "}));
}

TEST(Scanner, o200k_cuts_words_before_their_capitals) {
  EXPECT_EQ(cut(Pattern::kO200k, "camelCase HTMLParser's"), (Pieces{"camel", "Case", " HTMLParser's"}));
  EXPECT_EQ(cut(Pattern::kO200k,
                "WE'LL \xE4\xB8\xAD"
                "A x"),
            (Pieces{"WE'LL", " \xE4\xB8\xAD", "A", " x"}));
  EXPECT_EQ(cut(Pattern::kO200k, "e\xCC\x81! (\n//\n/1234"), (Pieces{"e\xCC\x81", "!", " (\n//\n/", "123", "4"}));
}

TEST(Scanner, pieces_cover_every_character_of_unicode) {
  std::string text;
  for (char32_t point = 0; point < 0x110000; point += 7)
    if (point < 0xD800 || point > 0xDFFF) text::append_utf8(text, point);
  for (const auto pattern : {Pattern::kGpt2, Pattern::kLlama3, Pattern::kQwen2, Pattern::kCl100k, Pattern::kO200k}) {
    std::string joined;
    for (const auto& piece : cut(pattern, text)) joined += piece;
    EXPECT_TRUE(joined == text);
    EXPECT_EQ(pattern_of_expression(expression_of(pattern)), pattern);
  }
}

TEST(Unicode, finds_where_text_stops_being_utf8) {
  EXPECT_EQ(text::valid_prefix("plain ASCII, longer than a word"), 31u);
  EXPECT_EQ(text::valid_prefix("h\xC3\xA9llo \xF0\x9F\x98\x80"), 11u);
  for (const std::string wrong : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                                  "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xFF"})
    EXPECT_EQ(text::valid_prefix("0123456789" + wrong + "x"), 10u) << wrong;
}

TEST(Unicode, normal_forms_join_and_part_marks) {
  EXPECT_EQ(normalized("e\xCC\x81 \xEF\xAC\x81", NormalForm::kNfc), "\xC3\xA9 \xEF\xAC\x81");
  EXPECT_EQ(normalized("\xC3\xA9", NormalForm::kNfd), "e\xCC\x81");
  EXPECT_EQ(normalized("\xEF\xAC\x81", NormalForm::kNfkc), "fi");
  EXPECT_EQ(normalized("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", NormalForm::kNfc), "\xEA\xB0\x81");  // Hangul
  EXPECT_EQ(text::lower_case("\xC3\x89T\xC4\xB0"), "\xC3\xA9ti\xCC\x87");
}

}  // namespace
}  // namespace hyperion::tokenizers

// Good tokenizer files and chat templates, and what to break them with. What is read is used too: on a text with most
// kinds of characters in it, or on a short dialogue.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/tokenizers/bpe_trainer.h"
#include "hyperion/tokenizers/byte_alphabet.h"
#include "hyperion/tokenizers/chat_tokens.h"
#include "hyperion/tokenizers/open_tokenizer.h"

namespace hyperion::testing {

inline const std::string& sample_text() {
  static const std::string text =
      "The low lowest, it's\t12345 newer (x!) <s> &- caf\xC3\xA9 e\xCC\x81 \xE6\x97\xA5\xE6\x9C\xAC "
      "\xF0\x9F\x91\x8B\n\n  a b <mask> \xEF\xAC\x81" +
      std::string(200, 'a');
  return text;
}

inline base::Json trained_tokenizer() {
  tokenizers::BpeTrainer trainer({tokenizers::Pattern::kGpt2, 280, 0, {"<|end|>"}});
  trainer.add("low lower lowest newer newest wider");
  return base::Json::parse(trainer.train());
}

// A tokenizer.json of every model, with most components in one of them.
inline const std::vector<std::string>& good_tokenizers() {
  static const std::vector<std::string> list = [] {
    using base::Json;
    auto bytes = trained_tokenizer();
    auto pieces = bytes;
    pieces["normalizer"] = {{"type", "NFC"}};
    pieces["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\d{1,2}(?=\\w)|[a-z]+ "}, "behavior": "MergedWithNext", "invert": false},
        {"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}]})");
    pieces["truncation"] = {{"max_length", 30}, {"direction", "Left"}, {"strategy", "LongestFirst"}, {"stride", 0}};
    pieces["padding"] = {
        {"strategy", {{"Fixed", 40}}}, {"pad_id", 3}, {"direction", "Left"}, {"pad_to_multiple_of", 8}};
    auto characters = Json::parse(R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true, "lstrip": true},
          {"id": 9, "content": "<mask>", "normalized": true, "single_word": true, "rstrip": true}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "_"}, {"type": "Strip"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
          {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<u>", "fuse_unk": true, "byte_fallback": true,
          "vocab": {"<u>": 0, "<s>": 1, "_": 2, "a": 3, "aa": 4, "l": 5, "lo": 6, "o": 7, "<0xC3>": 8, "<0xA9>": 10},
          "merges": ["a a", ["l", "o"]]}})");
    auto scores = Json::parse(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"},
          {"type": "Precompiled", "precompiled_charsmap": ""},
          {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "NFKC"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
          "vocab": [["<u>", 0.0], ["_", -2.5], ["a", -3.0], ["aa", -3.5], ["lo", -4.0], ["w", -1e2]]}})");
    scores["normalizer"]["normalizers"][1]["precompiled_charsmap"] =
        "AAQAAAAEAAAAAAAAAQAAAAM" + std::string(153, 'A') + "IYU" + std::string(34, 'A') + "CaYAAAAAAAAKKk" +
        std::string(13, 'A') + "Lbk" + std::string(1129, 'A') + "KwBbWwA=";
    auto words = Json::parse(R"({"normalizer": {"type": "BertNormalizer", "clean_text": true, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[S]", 1], "cls": ["[C]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[U]", "max_input_chars_per_word": 100,
          "vocab": {"[U]": 0, "[S]": 1, "[C]": 2, "the": 3, "low": 4, "##est": 5, "a": 6, "##a": 7}}})");
    return std::vector<std::string>{bytes.dump(), pieces.dump(), characters.dump(), scores.dump(), words.dump()};
  }();
  return list;
}

// Ranks, and merges of the same.
inline std::string good_ranks() {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (int byte = 0; byte < 256; ++byte)
    out += {digits[byte >> 2], digits[(byte & 3) << 4], '=', '=', ' '}, out += std::to_string(byte) + "\n";
  return out + "bG8= 256\nbG93 257\n";
}
inline std::string good_vocabulary() { return trained_tokenizer().at("model").at("vocab").dump(); }
inline std::string good_merges() {
  std::string out = "#version: 0.2\n";
  const auto json = trained_tokenizer();
  for (const auto& merge : json.at("model").at("merges"))
    out += merge.is_string() ? merge.get<std::string>() + "\n"
                             : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>() + "\n";
  return out;
}

inline const std::vector<std::string>& good_chat_templates() {
  static const std::vector<std::string> list = {
      "{%- for m in messages %}{{ '<|' + m.role + '|>\n' + m['content'] | trim + eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
      "{% set ns = namespace(n=0) %}{% for m in messages if m.role != 'system' %}{% set ns.n = ns.n + 1 %}"
      "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ loop.index }}"
      "{{ m.content[1:] | replace('o', \"\\n\") | upper }}{% endif %}{% else %}none{% endfor %}{{ ns.n // 2 }}",
      "{% macro f(a, b=1) %}{{ {'k': [a, b]} | tojson(indent=1) }}{% endmacro %}{{ f(messages | length) }}"
      "{% for x in range(3) %}{{ x if not x is odd else -x }}{% endfor %}{% generation %}{{ "
      "messages[-1].content.split(' ')[0] }}"
      "{% endgeneration %}"};
  return list;
}

inline const std::vector<std::string>& text_words() {
  static const std::vector<std::string> list = {
      "{",     "}",    "[",        "]",        "\"",           ",",      ":",         "0",         "-1",
      "1e9",   "null", "true",     "\\u0000",  "\xff",         "\xC3",   "4194303",   "1048576",   "\n",
      " ",     "=",    "AAAA",     "/////w==", "{%",           "%}",     "{{",        "}}",        "{% for ",
      "range", "*",    "messages", "(a+)+",    "\\\\p{L}",     "[^a]*b", "\"Regex\"", "\"Split\"", "\"NFKD\"",
      "{2,}",  "|",    "loop",     "~",        "{% endfor %}", "{% if ", "tojson",    "[::-1]",    "999999999",
      "not ",  "in ",  "is "};
  return list;
}

// Whether it was taken; a refusal is an error of ours that says so. Anything else is thrown on.
template <class Use>
bool taken(Use use) {
  try {
    use();
    return true;
  } catch (const base::CorruptError&) {
    return false;
  } catch (const base::ConfigError&) {
    return false;
  }
}

inline void use_tokenizer(const tokenizers::Tokenizer& tokenizer) {
  const auto [ids, ranges] = tokenizer.encode_with_offsets(sample_text());
  HYPERION_CHECK(ids == tokenizer.encode(sample_text()) && ids.size() == ranges.size(),
                 "ids are the same with offsets");
  for (const auto& [begin, end] : ranges)
    HYPERION_CHECK(begin <= end && end <= sample_text().size(), "offsets lie in the text");
  taken([&] { tokenizer.decode(ids); });
}

inline bool reads_tokenizer(const std::string& content) {
  return taken([&] { use_tokenizer(*tokenizers::read_tokenizer(content, "tokenizer.json", "gpt2")); });
}
inline bool reads_merges(const std::string& merges) {
  static const std::string vocabulary = good_vocabulary();
  return taken([&] { use_tokenizer(*tokenizers::read_tokenizer(vocabulary, merges, "", "merges.txt")); });
}
inline bool reads_chat_template(const std::string& source) {
  static const std::vector<text::ChatMessage> chat = {
      {"system", "Be kind."}, {"user", "Hello there"}, {"assistant", "Hi!"}, {"user", "And?"}, {"assistant", "No."}};
  return taken([&] {
    const text::ChatTemplate made(source, "template");
    made.render(chat, true, "<s>", "</s>");
    const auto turns = made.render_with_turns(chat, "<s>", "</s>");
    for (const auto& [begin, end] : turns.said)
      HYPERION_CHECK(begin <= end && end <= turns.text.size(), "turns lie in the text");
  });
}

}  // namespace hyperion::testing

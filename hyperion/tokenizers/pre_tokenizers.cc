#include "hyperion/tokenizers/pre_tokenizers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/normalizers.h"
#include "hyperion/tokenizers/text_pattern.h"

namespace hyperion::tokenizers {
namespace {

using base::format;
using base::Json;
using Pieces = std::vector<TracedText>;
using Step = PreTokenizer::Step;

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior behavior_of(const Json& json, const std::string& place) {
  const auto name = json.value("behavior", std::string("Isolated"));
  constexpr std::pair<std::string_view, Behavior> known[] = {{"Removed", Behavior::kRemoved},
                                                             {"Isolated", Behavior::kIsolated},
                                                             {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                             {"MergedWithNext", Behavior::kMergedWithNext},
                                                             {"Contiguous", Behavior::kContiguous}};
  for (const auto& [word, behavior] : known)
    if (name == word) return behavior;
  unknown_component(place, format("the behavior \"{}\" of a pre_tokenizer", name));
}

// Joins a match to the stretch before it; a match after a match stands by itself.
std::vector<Stretch> merged_with_previous(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> out;
  bool after_match = false;
  for (const auto& stretch : stretches) {
    if (stretch.match && !after_match && !out.empty())
      out.back().end = stretch.end;
    else
      out.push_back(stretch);
    after_match = stretch.match;
  }
  return out;
}

std::vector<Stretch> merged_with_next(std::vector<Stretch> stretches) {
  std::reverse(stretches.begin(), stretches.end());
  std::vector<Stretch> out;
  bool before_match = false;
  for (const auto& stretch : stretches) {
    if (stretch.match && !before_match && !out.empty())
      out.back().start = stretch.start;
    else
      out.push_back(stretch);
    before_match = stretch.match;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Stretch> contiguous(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> out;
  for (const auto& stretch : stretches) {
    if (!out.empty() && out.back().match == stretch.match)
      out.back().end = stretch.end;
    else
      out.push_back(stretch);
  }
  return out;
}

std::vector<Stretch> arranged(std::vector<Stretch> stretches, Behavior behavior) {
  switch (behavior) {
    case Behavior::kRemoved:
      std::erase_if(stretches, [](const Stretch& stretch) { return stretch.match; });
      return stretches;
    case Behavior::kIsolated:
      return stretches;
    case Behavior::kMergedWithPrevious:
      return merged_with_previous(stretches);
    case Behavior::kMergedWithNext:
      return merged_with_next(std::move(stretches));
    case Behavior::kContiguous:
      return contiguous(stretches);
  }
  return stretches;
}

Step split_step(const Finder& finder, Behavior behavior, bool invert = false) {
  return [=](const Pieces& pieces) {
    Pieces out;
    for (const auto& piece : pieces) {
      auto stretches = finder(piece.text());
      if (invert)
        for (auto& stretch : stretches) stretch.match = !stretch.match;
      for (const auto& stretch : arranged(std::move(stretches), behavior))
        out.push_back(piece.part(stretch.start, stretch.end));
    }
    return out;
  };
}

Step prefix_space_step() {
  return [](Pieces pieces) {
    for (auto& piece : pieces)
      if (!piece.text().starts_with(' ')) piece = prepended(piece, " ");
    return pieces;
  };
}

Step metaspace_step(const Json& json, const std::string& place) {
  const auto mark = json.value("replacement", std::string("\xE2\x96\x81"));
  if (mark.empty() || mark.size() != text::char_size(mark[0]))
    unknown_component(place, "a replacement of Metaspace that is not one character");
  const auto scheme =
      json.value("prepend_scheme", std::string(json.value("add_prefix_space", true) ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    unknown_component(place, format("the prepend_scheme \"{}\" of Metaspace", scheme));
  const Step cut = json.value("split", true) ? split_step(find_text(mark), Behavior::kMergedWithNext)
                                             : [](Pieces pieces) { return pieces; };
  return [=, spaces = find_text(" ")](Pieces pieces) {
    for (auto& piece : pieces) {
      piece = replaced(piece, spaces, mark);
      if ((scheme == "always" || (scheme == "first" && piece.from_start())) && !piece.text().starts_with(mark))
        piece = prepended(piece, mark);
    }
    return cut(std::move(pieces));
  };
}

bool is_bert_punctuation(char32_t point) {
  return text::is_punctuation(text::class_of(point)) ||
         (point < 0x80 && text::class_of(point) == text::CharClass::kSymbol);
}
bool is_white(char32_t point) { return text::is_space(text::class_of(point)); }

// \w+|[^\w\s]+, the rest dropped.
std::vector<Stretch> find_words(std::string_view text) {
  std::vector<Stretch> out;
  const auto kind = [&](size_t at) {
    const char32_t point = text::char_at(text.data() + at);
    return is_white(point) ? 0 : text::is_word_char(point) ? 1 : 2;
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    const int wanted = kind(at);
    while (end < text.size() && kind(end) == wanted) end += text::char_size(text[end]);
    out.push_back({at, end, wanted == 0});
    at = end;
  }
  return out;
}

void add_byte_level(const Json& json, PreTokenizer& out) {
  const bool prefix = json.value("add_prefix_space", true), cuts = json.value("use_regex", true);
  if (out.steps.empty() && cuts) {
    out.scanner = Pattern::kGpt2;
    out.prefix_space = prefix;
  }
  if (prefix && !cuts) out.scanner.reset();
  if (cuts && !out.steps.empty()) out.scanner.reset();
  if (prefix) out.steps.push_back(prefix_space_step());
  if (cuts) out.steps.push_back(split_step(find_pieces(Pattern::kGpt2), Behavior::kIsolated));
  out.byte_level = true;
}

void add_split(const Json& json, const std::string& place, PreTokenizer& out) {
  const auto& pattern = json.at("pattern");
  const Behavior behavior = behavior_of(json, place);
  const bool invert = json.value("invert", false);
  // The known expressions match everything, so that there is nothing between matches.
  const bool keeps = behavior == Behavior::kIsolated || (behavior == Behavior::kRemoved && invert);
  if (out.steps.empty() && keeps && pattern.contains("Regex"))
    out.scanner = pattern_of_expression(pattern.at("Regex").get<std::string>());
  else
    out.scanner.reset();
  out.steps.push_back(split_step(make_finder(pattern, place), behavior, invert));
}

void add_component(const Json& json, const std::string& place, PreTokenizer& out) {
  const auto type = json.at("type").get<std::string>();
  if (out.byte_level && type != "Sequence")
    unknown_component(place, format("the pre_tokenizer \"{}\" after ByteLevel", type));
  if (type == "Sequence") {
    for (const auto& step : json.at("pretokenizers")) add_component(step, place, out);
    return;
  }
  if (type == "ByteLevel") return add_byte_level(json, out);
  if (type == "Split") return add_split(json, place, out);
  out.scanner.reset();
  if (type == "Metaspace") return out.steps.push_back(metaspace_step(json, place));
  if (type == "Whitespace") return out.steps.push_back(split_step(find_words, Behavior::kRemoved));
  if (type == "WhitespaceSplit") return out.steps.push_back(split_step(find_chars(is_white), Behavior::kRemoved));
  if (type == "Punctuation")
    return out.steps.push_back(split_step(find_chars(is_bert_punctuation), behavior_of(json, place)));
  if (type == "Digits")
    return out.steps.push_back(
        split_step(find_chars([](char32_t point) { return text::is_number(text::class_of(point)); }),
                   json.value("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous));
  if (type == "CharDelimiterSplit")
    return out.steps.push_back(split_step(find_text(json.at("delimiter").get<std::string>()), Behavior::kRemoved));
  if (type == "BertPreTokenizer") {
    out.steps.push_back(split_step(find_chars(is_white), Behavior::kRemoved));
    return out.steps.push_back(split_step(find_chars(is_bert_punctuation), Behavior::kIsolated));
  }
  unknown_component(place, format("the pre_tokenizer \"{}\"", type));
}

}  // namespace

PreTokenizer make_pre_tokenizer(const Json& json, const std::string& place) {
  PreTokenizer out;
  add_component(json, place, out);
  if (!out.byte_level) out.scanner.reset();
  return out;
}

}  // namespace hyperion::tokenizers

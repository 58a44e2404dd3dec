#include "hyperion/data/normalizers.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "hyperion/base/format.h"
#include "hyperion/data/normal_forms.h"
#include "hyperion/data/text_pattern.h"

namespace hyperion::data {
namespace {

using base::Json;

std::string without(std::string_view text, bool (*unwanted)(char32_t)) {
  return replaced(text, find_chars(unwanted), "");
}

bool is_chinese(char32_t point) {
  // The ranges BERT's authors wrote down, and what `tokenizers` made of the sixth.
  constexpr char32_t ranges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                    {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [low, high] : ranges)
    if (point >= low && point <= high) return true;
  return false;
}

std::string clean(std::string_view text) {
  std::string out;
  for (const char32_t point : from_utf8(text)) {
    if (point == 0 || point == 0xFFFD) continue;
    const CharClass kind = class_of(point);
    if (is_space(kind) && !(point < 0x20 && point != '\t' && point != '\n' && point != '\r') && point != 0x85)
      out += ' ';
    else if (kind != CharClass::kControl && !is_space(kind))
      append_utf8(out, point);
  }
  return out;
}

std::string apart(std::string_view text) {
  std::string out;
  for (const char32_t point : from_utf8(text)) {
    if (is_chinese(point)) out += ' ';
    append_utf8(out, point);
    if (is_chinese(point)) out += ' ';
  }
  return out;
}

Normalizer make_bert(const Json& json) {
  const bool cleans = json.value("clean_text", true), chinese = json.value("handle_chinese_chars", true);
  const bool lower = json.value("lowercase", true);
  const auto accents = json.find("strip_accents");
  const bool strips = accents == json.end() || accents->is_null() ? lower : accents->get<bool>();
  return [=](std::string text) {
    if (cleans) text = clean(text);
    if (chinese) text = apart(text);
    if (strips) text = without(normalized(text, NormalForm::kNfd), is_accent);
    return lower ? lower_case(text) : text;
  };
}

std::string stripped(std::string_view text, bool left, bool right) {
  size_t start = 0, end = text.size();
  while (left && start < end && is_space(class_of(char_at(text.data() + start)))) start += char_size(text[start]);
  while (right && end > start) {
    size_t last = end - 1;
    while ((text[last] & 0xC0) == 0x80) --last;
    if (!is_space(class_of(char_at(text.data() + last)))) break;
    end = last;
  }
  return std::string(text.substr(start, end - start));
}

Normalizer make_sequence(const Json& json, const std::string& place) {
  std::vector<Normalizer> steps;
  for (const auto& step : json.at("normalizers")) steps.push_back(make_normalizer(step, place));
  return [steps = std::move(steps)](std::string text) {
    for (const auto& step : steps) text = step(std::move(text));
    return text;
  };
}

}  // namespace

Normalizer make_normalizer(const Json& json, const std::string& place) {
  const auto type = json.at("type").get<std::string>();
  constexpr std::pair<std::string_view, NormalForm> forms[] = {
      {"NFC", NormalForm::kNfc}, {"NFD", NormalForm::kNfd}, {"NFKC", NormalForm::kNfkc}, {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : forms)
    if (type == name) return [form = form](const std::string& text) { return normalized(text, form); };
  if (type == "Sequence") return make_sequence(json, place);
  if (type == "Lowercase") return [](const std::string& text) { return lower_case(text); };
  if (type == "StripAccents") return [](const std::string& text) { return without(text, is_mark); };
  if (type == "BertNormalizer") return make_bert(json);
  if (type == "Replace")
    return [finder = make_finder(json.at("pattern"), place),
            by = json.at("content").get<std::string>()](const std::string& text) { return replaced(text, finder, by); };
  if (type == "Prepend")
    return [front = json.at("prepend").get<std::string>()](const std::string& text) {
      return text.empty() ? text : front + text;
    };
  if (type == "Strip")
    return [left = json.value("strip_left", true), right = json.value("strip_right", true)](const std::string& text) {
      return stripped(text, left, right);
    };
  unknown_component(place, base::format("the normalizer \"{}\"", type));
}

}  // namespace hyperion::data

#include "hyperion/tokenizers/normalizers.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/text/base64.h"
#include "hyperion/tokenizers/byte_alphabet.h"
#include "hyperion/tokenizers/charsmap.h"
#include "hyperion/tokenizers/normal_forms.h"
#include "hyperion/tokenizers/text_pattern.h"

namespace hyperion::tokenizers {
namespace {

using base::Json;

TracedText without(const TracedText& text, bool (*unwanted)(char32_t)) {
  return replaced(text, find_chars(unwanted), "");
}

// Each character by what `change(point, at, next, out)` writes for it.
template <class Change>
TracedText each_char(const TracedText& traced, Change change) {
  const std::string& text = traced.text();
  Rewrite out(traced);
  for (size_t at = 0; at < text.size();) {
    const size_t next = at + text::char_size(text[at]);
    change(text::char_at(text.data() + at), at, next, out);
    at = next;
  }
  return out.finish();
}

bool is_chinese(char32_t point) {
  // The ranges BERT's authors wrote down, and what `tokenizers` made of the sixth.
  constexpr char32_t ranges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                    {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [low, high] : ranges)
    if (point >= low && point <= high) return true;
  return false;
}

TracedText clean(const TracedText& text) {
  return each_char(text, [](char32_t point, size_t at, size_t next, Rewrite& out) {
    if (point == 0 || point == 0xFFFD) return;
    const text::CharClass kind = text::class_of(point);
    if (text::is_space(kind) && !(point < 0x20 && point != '\t' && point != '\n' && point != '\r') && point != 0x85)
      out.put(" ", at, next);
    else if (kind != text::CharClass::kControl && !text::is_space(kind))
      out.keep(at, next);
  });
}

TracedText apart(const TracedText& text) {
  return each_char(text, [&](char32_t point, size_t at, size_t next, Rewrite& out) {
    if (!is_chinese(point)) return out.keep(at, next);
    out.put(" ", at, next);
    out.keep(at, next);
    out.put(" ", at, next);
  });
}

TracedText lowered(const TracedText& text) {
  return each_char(text, [&](char32_t, size_t at, size_t next, Rewrite& out) {
    const auto upper = std::string_view(text.text()).substr(at, next - at);
    const std::string lower = text::lower_case(upper);
    if (lower == upper)
      out.keep(at, next);
    else
      out.put(lower, at, next);
  });
}

Normalizer make_bert(const Json& json) {
  const bool cleans = json.value("clean_text", true), chinese = json.value("handle_chinese_chars", true);
  const bool lower = json.value("lowercase", true);
  const auto accents = json.find("strip_accents");
  const bool strips = accents == json.end() || accents->is_null() ? lower : accents->get<bool>();
  return [=](TracedText text) {
    if (cleans) text = clean(text);
    if (chinese) text = apart(text);
    if (strips) text = without(normalized(text, NormalForm::kNfd), is_accent);
    return lower ? lowered(text) : text;
  };
}

TracedText stripped(const TracedText& traced, bool left, bool right) {
  const std::string& text = traced.text();
  size_t start = 0, end = text.size();
  while (left && start < end && text::is_space(text::class_of(text::char_at(text.data() + start))))
    start += text::char_size(text[start]);
  while (right && end > start) {
    size_t last = end - 1;
    while ((text[last] & 0xC0) == 0x80) --last;
    if (!text::is_space(text::class_of(text::char_at(text.data() + last)))) break;
    end = last;
  }
  return traced.part(start, end);
}

// What SentencePiece does before its own replacements: control characters go, other white space becomes a space.
TracedText nmt(const TracedText& text) {
  return each_char(text, [](char32_t point, size_t at, size_t next, Rewrite& out) {
    const auto in = [&](char32_t low, char32_t high) { return point >= low && point <= high; };
    if (in(0x1, 0x8) || point == 0xB || in(0xE, 0x1F) || point == 0x7F || point == 0x8F || point == 0x9F) return;
    if (in(0x9, 0xA) || in(0xC, 0xD) || point == 0x1680 || in(0x200B, 0x200F) || in(0x2028, 0x2029) ||
        point == 0x2581 || point == 0xFEFF || point == 0xFFFD)
      out.put(" ", at, next);
    else
      out.keep(at, next);
  });
}

Normalizer make_precompiled(const Json& json, const std::string& place) {
  const auto bytes = text::from_base64(json.at("precompiled_charsmap").get<std::string>());
  if (!bytes) throw base::CorruptError(base::format("{}: the precompiled_charsmap is not base64", place));
  const auto map = std::make_shared<const Charsmap>(*bytes, place);
  return [map](const TracedText& text) { return map->apply(text); };
}

Normalizer make_sequence(const Json& json, const std::string& place) {
  std::vector<Normalizer> steps;
  for (const auto& step : json.at("normalizers")) steps.push_back(make_normalizer(step, place));
  return [steps = std::move(steps)](TracedText text) {
    for (const auto& step : steps) text = step(std::move(text));
    return text;
  };
}

}  // namespace

TracedText prepended(const TracedText& text, std::string_view front) {
  if (text.text().empty()) return text;
  Rewrite out(text);
  out.put(front, 0, text::char_size(text.text().front()));
  out.keep(0, text.text().size());
  return out.finish();
}

TracedText spelled(const TracedText& text) {
  Rewrite out(text);
  for (size_t at = 0; at < text.text().size(); ++at) out.put(spell_bytes({&text.text()[at], 1}), at, at + 1);
  return out.finish();
}

Normalizer make_normalizer(const Json& json, const std::string& place) {
  const auto type = json.at("type").get<std::string>();
  constexpr std::pair<std::string_view, NormalForm> forms[] = {
      {"NFC", NormalForm::kNfc}, {"NFD", NormalForm::kNfd}, {"NFKC", NormalForm::kNfkc}, {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : forms)
    if (type == name) return [form = form](const TracedText& text) { return normalized(text, form); };
  if (type == "Sequence") return make_sequence(json, place);
  if (type == "Lowercase") return lowered;
  if (type == "StripAccents") return [](const TracedText& text) { return without(text, is_mark); };
  if (type == "BertNormalizer") return make_bert(json);
  if (type == "Replace")
    return [finder = make_finder(json.at("pattern"), place),
            by = json.at("content").get<std::string>()](const TracedText& text) { return replaced(text, finder, by); };
  if (type == "Prepend")
    return [front = json.at("prepend").get<std::string>()](const TracedText& text) { return prepended(text, front); };
  if (type == "Nmt") return nmt;
  if (type == "Precompiled") return make_precompiled(json, place);
  if (type == "ByteLevel") return spelled;
  if (type == "Strip")
    return [left = json.value("strip_left", true), right = json.value("strip_right", true)](const TracedText& text) {
      return stripped(text, left, right);
    };
  unknown_component(place, base::format("the normalizer \"{}\"", type));
}

}  // namespace hyperion::tokenizers

#include "hyperion/tokenizers/text_pattern.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/expressions.h"

namespace hyperion::tokenizers {
namespace {

using Wanted = std::function<bool(char32_t)>;

class Stretches {
 public:
  void add_match(size_t start, size_t end) {
    add_rest(start);
    out_.push_back({start, end, true});
    done_ = end;
  }
  std::vector<Stretch> finish(size_t size) {
    add_rest(size);
    return std::move(out_);
  }

 private:
  void add_rest(size_t end) {
    if (done_ < end) out_.push_back({done_, end, false});
  }
  std::vector<Stretch> out_;
  size_t done_ = 0;
};

// One character or class: " ", "\s", "\d", "\n", "\p{N}", "[\r\n]", "\p{P}".
std::optional<Wanted> wanted_by(std::string_view atom) {
  if (atom == "\\s") return [](char32_t point) { return text::is_space(text::class_of(point)); };
  if (atom == "\\d" || atom == "[0-9]" || atom == "\\p{Nd}")
    return [ascii = atom == "[0-9]"](char32_t point) {
      return ascii ? point >= '0' && point <= '9' : text::class_of(point) == text::CharClass::kDecimal;
    };
  if (atom == "\\p{N}") return [](char32_t point) { return text::is_number(text::class_of(point)); };
  if (atom == "\\p{L}") return [](char32_t point) { return text::is_letter(text::class_of(point)); };
  if (atom == "\\p{P}") return [](char32_t point) { return text::is_punctuation(text::class_of(point)); };
  if (atom == "[\\r\\n]") return [](char32_t point) { return point == '\r' || point == '\n'; };
  constexpr std::pair<std::string_view, char32_t> escapes[] = {
      {"\\n", '\n'}, {"\\r", '\r'}, {"\\t", '\t'}, {"\\.", '.'}};
  for (const auto& [escape, meant] : escapes)
    if (atom == escape) return [meant = meant](char32_t point) { return point == meant; };
  const bool plain = !atom.empty() && text::char_size(atom[0]) == atom.size() &&
                     std::string_view("\\.[](){}*+?^$|").find(atom[0]) == std::string_view::npos;
  if (plain) return [only = text::char_at(atom.data())](char32_t point) { return point == only; };
  return std::nullopt;
}

std::optional<Finder> finder_of_expression(std::string_view text) {
  if (const auto pattern = pattern_of_expression(text)) return find_pieces(*pattern);
  if (const auto wanted = wanted_by(text)) return find_chars(*wanted);
  if (text.ends_with("+"))
    if (const auto wanted = wanted_by(text.substr(0, text.size() - 1))) return find_runs(*wanted);
  if (text.ends_with("{2,}"))
    if (const auto wanted = wanted_by(text.substr(0, text.size() - 4))) return find_runs(*wanted, 2);
  if (text.find_first_of("\\.[](){}*+?^$|") == std::string_view::npos && !text.empty())
    return find_text(std::string(text));
  return std::nullopt;
}

}  // namespace

Finder find_chars(Wanted wanted) {
  return [wanted = std::move(wanted)](std::string_view text) {
    Stretches stretches;
    for (size_t at = 0; at < text.size(); at += text::char_size(text[at]))
      if (wanted(text::char_at(text.data() + at))) stretches.add_match(at, at + text::char_size(text[at]));
    return stretches.finish(text.size());
  };
}

Finder find_runs(Wanted wanted, size_t at_least) {
  return [wanted = std::move(wanted), at_least](std::string_view text) {
    Stretches stretches;
    for (size_t at = 0; at < text.size();) {
      size_t end = at, count = 0;
      for (; end < text.size() && wanted(text::char_at(text.data() + end)); ++count) end += text::char_size(text[end]);
      if (count >= at_least) stretches.add_match(at, end);
      at = end > at ? end : at + text::char_size(text[at]);
    }
    return stretches.finish(text.size());
  };
}

Finder find_text(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text) {
    Stretches stretches;
    if (!wanted.empty())
      for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size()))
        stretches.add_match(at, at + wanted.size());
    return stretches.finish(text.size());
  };
}

Finder find_pieces(Pattern pattern) {
  return [pattern](std::string_view text) {
    Stretches stretches;
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at < end;) {
      const char* stop = piece_end(pattern, text::class_pages(), at, end);
      stretches.add_match(static_cast<size_t>(at - text.data()), static_cast<size_t>(stop - text.data()));
      at = stop;
    }
    return stretches.finish(text.size());
  };
}

Finder make_finder(const base::Json& json, const std::string& place) {
  if (json.is_string()) return find_text(json.get<std::string>());
  if (json.contains("String")) return find_text(json.at("String").get<std::string>());
  const auto text = json.at("Regex").get<std::string>();
  if (auto finder = finder_of_expression(text)) return *finder;
  return find_expression(text, place);
}

TracedText replaced(const TracedText& text, const Finder& finder, std::string_view by) {
  Rewrite out(text);
  for (const auto& [start, end, match] : finder(text.text())) {
    if (match)
      out.put(by, start, end);
    else
      out.keep(start, end);
  }
  return out.finish();
}

std::string replaced(std::string_view text, const Finder& finder, std::string_view by) {
  return replaced(TracedText(text), finder, by).text();
}

}  // namespace hyperion::tokenizers

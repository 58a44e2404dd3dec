#include "hyperion/trace/form_pieces.h"

#include <algorithm>
#include <string>

#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"
#include "hyperion/trace/json_scan.h"
#include "hyperion/trace/packed_fields.h"

namespace hyperion::trace {
namespace {

bool is_place(char c) { return c == kIntegerPlace || c == kDecimalPlace || c == kTextPlace; }

bool is_members(std::string_view form) {
  std::string example = "[{" + std::string(form) + "}]";
  std::replace_if(example.begin(), example.end(), is_place, '0');
  if (text::valid_prefix(example) != example.size()) return false;
  try {
    return text::json_elements(example).size() == 1;
  } catch (const text::JsonError&) {
    return false;
  }
}

}  // namespace

bool read_pieces(std::string_view form, std::vector<Piece>& pieces) {
  pieces.clear();
  if (!is_members(form)) return false;
  bool inside = false;  // of a string
  for (size_t i = 0; i < form.size(); ++i) {
    const char c = form[i];
    const char before = i > 0 ? form[i - 1] : '{', after = i + 1 < form.size() ? form[i + 1] : '}';
    if (c == '"') {
      inside = !inside;
    } else if (c == '\\') {
      ++i;
      if (i < form.size() && is_place(form[i])) return false;
    } else if (is_place(c) && inside) {
      if (c != kTextPlace || before != '"' || after != '"') return false;
      pieces.push_back(Piece::quoted);
    } else if (is_place(c)) {
      if (before != ':' && before != ',' && before != '[' && !is_json_space(before)) return false;
      if (after != ',' && after != '}' && after != ']' && !is_json_space(after)) return false;
      if (c == kDecimalPlace) pieces.push_back(Piece::fraction);
      pieces.push_back(c == kIntegerPlace ? Piece::integer : c == kDecimalPlace ? Piece::digits : Piece::bare);
    }
  }
  return true;
}

}  // namespace hyperion::trace

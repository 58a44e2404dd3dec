#include "hyperion/text/jinja_values.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_budget.h"
#include "hyperion/text/unicode.h"

namespace hyperion::text::jinja {
namespace {

using base::format;

constexpr size_t kMaxList = 1'000'000;

std::string joined_text(const std::string& left, const std::string& right) {
  std::string out;
  append(out, left);
  append(out, right);
  return out;
}

constexpr size_t kPiece = 4096;  // bytes that are rewritten at once, so that a text past its limit is never whole

// Calls `use` with one piece after the other, each of whole characters.
template <class Use>
void in_pieces(std::string_view text, Use use) {
  while (!text.empty()) {
    size_t end = std::min(text.size(), kPiece);
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    use(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// A part of Python's repr, without its quotes.
std::string repr_piece(std::string_view text, char quote) {
  std::string out;
  for (const char c : text) {
    if (c == quote || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += format("\\x{:02x}", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

// Python's repr: single quotes, unless only they occur inside.
void show_text(const std::string& text, std::string& out) {
  const bool single = place_of("'", text) != text.npos;
  const char quote = single && place_of("\"", text) == text.npos ? '"' : '\'';
  append(out, {&quote, 1});
  in_pieces(text, [&](std::string_view piece) { append(out, repr_piece(piece, quote)); });
  append(out, {&quote, 1});
}

void show(const Value& value, std::string& out) {
  spend(1);
  if (value.is_text()) return show_text(value.text(), out);
  if (value.is_list()) {
    append(out, "[");
    for (const auto& each : value.items()) {
      if (&each != &value.items().front()) append(out, ", ");
      show(each, out);
    }
    return append(out, "]");
  }
  if (value.is_map()) {
    append(out, "{");
    for (const auto& pair : value.pairs()) {
      if (&pair != &value.pairs().front()) append(out, ", ");
      show_text(pair.first, out);
      append(out, ": ");
      show(pair.second, out);
    }
    return append(out, "}");
  }
  append(out, value.is_undefined() ? "Undefined" : text_of(value));
}

bool is_numeric(const Value& value) { return value.is_number() || value.is_bool(); }
bool is_whole(const Value& value) { return value.is_whole() || value.is_bool(); }
int64_t whole(const Value& value) {
  if (!is_whole(value)) throw Fault(0, format("a whole number is needed, not {}", kind_name(value)));
  return value.as_whole();
}

Value arithmetic(const std::string& sign, const Value& left, const Value& right) {
  if ((sign == "/" || sign == "//" || sign == "%") && right.as_real() == 0) throw Fault(0, "a division by zero");
  if (is_whole(left) && is_whole(right) && sign != "/") {
    const int64_t a = whole(left), b = whole(right);
    int64_t out = 0;
    const bool over = sign == "+"   ? __builtin_add_overflow(a, b, &out)
                      : sign == "-" ? __builtin_sub_overflow(a, b, &out)
                      : sign == "*" ? __builtin_mul_overflow(a, b, &out)
                                    : b == -1 && __builtin_sub_overflow(int64_t{0}, a, &out);
    if (over) throw Fault(0, format("a whole number is too large after \"{}\"", sign));
    if (sign == "//" && b != -1) out = a / b - (a % b != 0 && (a < 0) != (b < 0));
    if (sign == "%") out = b == -1 ? 0 : (a % b + b) % b;
    return out;
  }
  const double a = left.as_real(), b = right.as_real();
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  return a - b * std::floor(a / b);
}

bool less(const Value& left, const Value& right, const std::string& sign) {
  if (is_numeric(left) && is_numeric(right)) return left.as_real() < right.as_real();
  if (left.is_text() && right.is_text()) {
    spend_on_text(std::min(left.text().size(), right.text().size()));
    return left.text() < right.text();
  }
  throw Fault(0, format("\"{}\" does not order {} and {}", sign, kind_name(left), kind_name(right)));
}

Value sum(const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) return joined_text(left.text(), right.text());
  if (!left.is_list() || !right.is_list())
    throw Fault(0, format("\"+\" does not add {} and {}", kind_name(left), kind_name(right)));
  if (left.items().size() + right.items().size() > kMaxList) throw Fault(0, "a value grows too large");
  spend(left.items().size() + right.items().size());
  Value::List items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return Value::list(std::move(items));
}

void write_json_text(const std::string& text, bool ascii, std::string& out) {
  append(out, "\"");
  in_pieces(text, [&](std::string_view piece) {
    const auto quoted = nlohmann::json(piece).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
    append(out, std::string_view(quoted).substr(1, quoted.size() - 2));
  });
  append(out, "\"");
}

struct JsonForm {
  int indent;  // below 0: on one line
  bool ascii;
};

void write_json(const Value& value, const JsonForm& form, int depth, std::string& out) {
  spend(1);
  if (value.is_undefined()) throw Fault(0, "an undefined value has no JSON");
  if (value.is_none()) return append(out, "null");
  if (value.is_bool()) return append(out, value.as_bool() ? "true" : "false");
  if (value.is_number()) return append(out, value.number_text());
  if (value.is_text()) return write_json_text(value.text(), form.ascii, out);
  const bool map = value.is_map();
  const size_t count = map ? value.pairs().size() : value.items().size();
  if (count == 0) return append(out, map ? "{}" : "[]");
  const auto gap = [&](int level) {
    if (form.indent >= 0) append(out, "\n" + std::string(static_cast<size_t>(form.indent) * level, ' '));
  };
  append(out, map ? "{" : "[");
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) append(out, form.indent < 0 ? ", " : ",");
    gap(depth + 1);
    if (map) {
      write_json_text(value.pairs()[i].first, form.ascii, out);
      append(out, ": ");
    }
    write_json(map ? value.pairs()[i].second : value.items()[i], form, depth + 1, out);
  }
  gap(depth);
  append(out, map ? "}" : "]");
}

// What is left of a text after so many of its characters.
std::string_view after_chars(std::string_view text, size_t count) {
  size_t at = 0;
  while (count-- > 0 && at < text.size()) at += char_size(text[at]);
  spend_on_text(4 * at);
  return text.substr(at);
}

}  // namespace

bool truth(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_number()) return value.as_real() != 0;
  if (value.is_text()) return !value.text().empty();
  return (value.is_list() && !value.items().empty()) || (value.is_map() && !value.pairs().empty());
}

std::string kind_name(const Value& value) {
  if (value.is_undefined()) return "an undefined value";
  if (value.is_none()) return "none";
  if (value.is_map()) return "a mapping";
  if (value.is_list()) return "a list";
  return value.is_text() ? "a string" : value.is_bool() ? "a boolean" : "a number";
}

std::string text_of(const Value& value) {
  if (value.is_text()) {
    spend_on_text(value.text().size());
    return value.text();
  }
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_number()) return value.number_text();
  std::string out;
  show(value, out);
  return out;
}

std::string json_text(const Value& value, int indent, bool ascii) {
  std::string out;
  write_json(value, {indent, ascii}, 0, out);
  return out;
}

bool equal(const Value& left, const Value& right) {
  spend(1);
  if (is_numeric(left) && is_numeric(right))
    return is_whole(left) && is_whole(right) ? whole(left) == whole(right) : left.as_real() == right.as_real();
  if (!left.same_kind(right)) return false;
  if (left.is_text()) {
    if (left.text().size() == right.text().size()) spend_on_text(left.text().size());
    return left.text() == right.text();
  }
  if (left.same_object(right)) return true;
  if (left.is_list())
    return std::equal(left.items().begin(), left.items().end(), right.items().begin(), right.items().end(), equal);
  if (!left.is_map()) return true;  // none, or undefined
  return left.pairs().size() == right.pairs().size() &&
         std::all_of(left.pairs().begin(), left.pairs().end(), [&](const auto& pair) {
           const Value* other = right.find(pair.first);
           return other != nullptr && equal(pair.second, *other);
         });
}

bool contains(const Value& container, const Value& value) {
  if (container.is_undefined()) return false;
  if (container.is_list())
    return std::any_of(container.items().begin(), container.items().end(),
                       [&](const Value& each) { return equal(each, value); });
  if (container.is_map()) return value.is_text() && container.find(value.text()) != nullptr;
  if (container.is_text() && value.is_text()) return place_of(value.text(), container.text()) != std::string::npos;
  throw Fault(0, format("\"in\" does not look for {} in {}", kind_name(value), kind_name(container)));
}

Value binary_operation(const std::string& sign, const Value& left, const Value& right) {
  if (sign == "==") return equal(left, right);
  if (sign == "!=") return !equal(left, right);
  if (sign == "in") return contains(right, left);
  if (sign == "not in") return !contains(right, left);
  if (sign == "~") return joined_text(text_of(left), text_of(right));
  if (sign == "<") return less(left, right, sign);
  if (sign == ">") return less(right, left, sign);
  if (sign == "<=") return less(left, right, sign) || equal(left, right);
  if (sign == ">=") return less(right, left, sign) || equal(left, right);
  if (is_numeric(left) && is_numeric(right)) return arithmetic(sign, left, right);
  if (sign == "+") return sum(left, right);
  throw Fault(0, format("\"{}\" does not join {} and {}", sign, kind_name(left), kind_name(right)));
}

Value item_of(const Value& container, const Value& key) {
  if (container.is_undefined()) throw Fault(0, "a part is asked of an undefined value");
  if (container.is_map()) {
    const Value* found = key.is_text() ? container.find(key.text()) : nullptr;
    return found == nullptr ? Value() : *found;
  }
  if (!is_whole(key) || !(container.is_list() || container.is_text())) return {};
  const int64_t size = static_cast<int64_t>(length_of(container)), asked = whole(key);
  const int64_t index = asked < 0 ? asked + size : asked;
  if (index < 0 || index >= size) return {};
  if (container.is_list()) return container.items()[static_cast<size_t>(index)];
  const auto rest = after_chars(container.text(), static_cast<size_t>(index));
  return std::string(rest.substr(0, char_size(rest.front())));
}

Value slice_of(const Value& container, const Value& from, const Value& to, const Value& step) {
  if (!container.is_list() && !container.is_text())
    throw Fault(0, format("a slice of {} is asked for", kind_name(container)));
  const int64_t size = static_cast<int64_t>(length_of(container)), by = step.is_none() ? 1 : whole(step);
  if (by == 0) throw Fault(0, "the step of a slice is zero");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_none()) return absent;
    const int64_t at = std::clamp<int64_t>(whole(value), -size - 1, size + 1);
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  const int64_t begin = bound(from, by > 0 ? 0 : size - 1), end = bound(to, by > 0 ? size : -1);
  const int64_t stride = std::clamp<int64_t>(by, -size - 1, size + 1);
  if (container.is_text() && by == 1) {
    const auto rest = after_chars(container.text(), static_cast<size_t>(begin));
    return std::string(
        rest.substr(0, rest.size() - after_chars(rest, static_cast<size_t>(std::max(end - begin, int64_t{0}))).size()));
  }
  const Value elements = elements_of(container);
  Value::List list;
  for (int64_t i = begin; by > 0 ? i < end : i > end; i += stride)
    list.push_back(elements.items()[static_cast<size_t>(i)]);
  if (container.is_list()) return Value::list(std::move(list));
  std::string text;
  for (const auto& each : list) text += each.text();
  return text;
}

Value elements_of(const Value& value) {
  Value::List out;
  if (value.is_list()) {
    spend(value.items().size());
    return value;
  }
  if (value.is_map()) {
    for (const auto& [key, each] : value.pairs()) {
      spend_on_text(16 + key.size());
      out.emplace_back(key);
    }
  } else if (value.is_text()) {
    const std::string& text = value.text();
    spend(text.size());
    for (size_t at = 0; at < text.size(); at += char_size(text[at]))
      out.emplace_back(text.substr(at, char_size(text[at])));
  } else if (!value.is_undefined()) {
    throw Fault(0, format("{} has no elements", kind_name(value)));
  }
  return Value::list(std::move(out));
}

size_t length_of(const Value& value) {
  if (value.is_list()) return value.items().size();
  if (value.is_map()) return value.pairs().size();
  if (value.is_undefined()) return 0;
  if (!value.is_text()) throw Fault(0, format("{} has no length", kind_name(value)));
  return count_chars(value.text());
}

size_t count_chars(std::string_view text) {
  spend_on_text(text.size());
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace hyperion::text::jinja

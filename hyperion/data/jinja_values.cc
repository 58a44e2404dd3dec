#include "hyperion/data/jinja_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/data/unicode.h"

namespace hyperion::data::jinja {
namespace {

using base::format;

std::string number_text(const Value& value) {
  if (!value.is_number_float()) return value.dump();
  const double number = value.get<double>();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);  // as Python's repr
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string out(buffer, end);
  if (plain && out.find('.') == out.npos) out += ".0";
  return out;
}

// Python's repr: single quotes, unless only they occur inside.
std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
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
  return out + quote;
}

std::string shown(const Value& value) {
  if (value.is_string()) return quoted(value.get_ref<const std::string&>());
  if (value.is_array()) {
    std::string out = "[";
    for (const auto& each : value) out += (out.size() > 1 ? ", " : "") + shown(each);
    return out + "]";
  }
  if (value.is_object()) {
    std::string out = "{";
    for (const auto& [key, each] : value.items())
      out += (out.size() > 1 ? ", " : "") + quoted(key) + ": " + shown(each);
    return out + "}";
  }
  return is_undefined(value) ? "Undefined" : text_of(value);
}

bool is_numeric(const Value& value) { return value.is_number() || value.is_boolean(); }
bool is_whole(const Value& value) { return value.is_number_integer() || value.is_boolean(); }
double real(const Value& value) { return value.is_boolean() ? value.get<bool>() : value.get<double>(); }
int64_t whole(const Value& value) {
  if (!is_whole(value)) throw Fault(0, format("a whole number is needed, not {}", kind_name(value)));
  return value.is_boolean() ? value.get<bool>() : value.get<int64_t>();
}

Value arithmetic(const std::string& sign, const Value& left, const Value& right) {
  if ((sign == "/" || sign == "//" || sign == "%") && real(right) == 0) throw Fault(0, "a division by zero");
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
  const double a = real(left), b = real(right);
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  return a - b * std::floor(a / b);
}

bool less(const Value& left, const Value& right, const std::string& sign) {
  if (is_numeric(left) && is_numeric(right)) return real(left) < real(right);
  if (left.is_string() && right.is_string())
    return left.get_ref<const std::string&>() < right.get_ref<const std::string&>();
  throw Fault(0, format("\"{}\" does not order {} and {}", sign, kind_name(left), kind_name(right)));
}

Value sum(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string())
    return left.get_ref<const std::string&>() + right.get_ref<const std::string&>();
  if (!left.is_array() || !right.is_array())
    throw Fault(0, format("\"+\" does not add {} and {}", kind_name(left), kind_name(right)));
  Value out = left;
  for (const auto& each : right) out.push_back(each);
  return out;
}

}  // namespace

Value undefined() { return Value(Value::value_t::discarded); }
bool is_undefined(const Value& value) { return value.is_discarded(); }

bool truth(const Value& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return value.is_structured() && !value.empty();
}

std::string kind_name(const Value& value) {
  if (is_undefined(value)) return "an undefined value";
  if (value.is_null()) return "none";
  if (value.is_object()) return "a mapping";
  if (value.is_array()) return "a list";
  return std::string("a ") + value.type_name();
}

std::string text_of(const Value& value) {
  if (value.is_string()) return value.get<std::string>();
  if (is_undefined(value)) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number()) return number_text(value);
  return shown(value);
}

std::string json_text(const Value& value, int indent, bool ascii, int depth) {
  if (is_undefined(value)) throw Fault(0, "an undefined value has no JSON");
  if (value.is_number_float()) return number_text(value);
  if (!value.is_structured()) return value.dump(-1, ' ', ascii, Value::error_handler_t::replace);
  const bool object = value.is_object();
  if (value.empty()) return object ? "{}" : "[]";
  const auto gap = [&](int level) {
    return indent < 0 ? std::string() : "\n" + std::string(size_t(indent) * level, ' ');
  };
  std::string out(1, object ? '{' : '[');
  bool first = true;
  for (auto each = value.begin(); each != value.end(); ++each) {
    if (!first) out += indent < 0 ? ", " : ",";
    first = false;
    out += gap(depth + 1);
    if (object) out += Value(each.key()).dump(-1, ' ', ascii, Value::error_handler_t::replace) + ": ";
    out += json_text(*each, indent, ascii, depth + 1);
  }
  return out + gap(depth) + (object ? '}' : ']');
}

bool equal(const Value& left, const Value& right) {
  if (is_undefined(left) || is_undefined(right)) return is_undefined(left) && is_undefined(right);
  if (is_numeric(left) && is_numeric(right))
    return is_whole(left) && is_whole(right) ? whole(left) == whole(right) : real(left) == real(right);
  if (left.type() != right.type()) return false;
  if (!left.is_structured()) return left == right;
  if (left.size() != right.size()) return false;
  if (left.is_array()) return std::equal(left.begin(), left.end(), right.begin(), equal);
  for (const auto& [key, value] : left.items())
    if (const auto other = right.find(key); other == right.end() || !equal(value, *other)) return false;
  return true;
}

bool contains(const Value& container, const Value& value) {
  if (is_undefined(container)) return false;
  if (container.is_array())
    return std::any_of(container.begin(), container.end(), [&](const Value& each) { return equal(each, value); });
  if (container.is_object()) return value.is_string() && container.contains(value.get_ref<const std::string&>());
  if (container.is_string() && value.is_string())
    return container.get_ref<const std::string&>().find(value.get_ref<const std::string&>()) != std::string::npos;
  throw Fault(0, format("\"in\" does not look for {} in {}", kind_name(value), kind_name(container)));
}

Value binary_operation(const std::string& sign, const Value& left, const Value& right) {
  if (sign == "==") return equal(left, right);
  if (sign == "!=") return !equal(left, right);
  if (sign == "in") return contains(right, left);
  if (sign == "not in") return !contains(right, left);
  if (sign == "~") return text_of(left) + text_of(right);
  if (sign == "<") return less(left, right, sign);
  if (sign == ">") return less(right, left, sign);
  if (sign == "<=") return less(left, right, sign) || equal(left, right);
  if (sign == ">=") return less(right, left, sign) || equal(left, right);
  if (is_numeric(left) && is_numeric(right)) return arithmetic(sign, left, right);
  if (sign == "+") return sum(left, right);
  throw Fault(0, format("\"{}\" does not join {} and {}", sign, kind_name(left), kind_name(right)));
}

Value item_of(const Value& container, const Value& key) {
  if (is_undefined(container)) throw Fault(0, "a part is asked of an undefined value");
  if (container.is_object()) {
    const auto found = key.is_string() ? container.find(key.get_ref<const std::string&>()) : container.end();
    return found == container.end() ? undefined() : *found;
  }
  if (!is_whole(key) || !(container.is_array() || container.is_string())) return undefined();
  const int64_t size = static_cast<int64_t>(length_of(container)), asked = whole(key);
  const int64_t index = asked < 0 ? asked + size : asked;
  if (index < 0 || index >= size) return undefined();
  if (container.is_array()) return container[static_cast<size_t>(index)];
  return elements_of(container)[static_cast<size_t>(index)];
}

Value slice_of(const Value& container, const Value& from, const Value& to, const Value& step) {
  if (!container.is_array() && !container.is_string())
    throw Fault(0, format("a slice of {} is asked for", kind_name(container)));
  const auto elements = elements_of(container);
  const int64_t size = static_cast<int64_t>(elements.size()), by = step.is_null() ? 1 : whole(step);
  if (by == 0) throw Fault(0, "the step of a slice is zero");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_null()) return absent;
    const int64_t at = std::clamp<int64_t>(whole(value), -size - 1, size + 1);
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  const int64_t begin = bound(from, by > 0 ? 0 : size - 1), end = bound(to, by > 0 ? size : -1);
  const int64_t stride = std::clamp<int64_t>(by, -size - 1, size + 1);
  Value list = Value::array();
  for (int64_t i = begin; by > 0 ? i < end : i > end; i += stride) list.push_back(elements[static_cast<size_t>(i)]);
  if (container.is_array()) return list;
  std::string text;
  for (const auto& each : list) text += each.get_ref<const std::string&>();
  return text;
}

std::vector<Value> elements_of(const Value& value) {
  std::vector<Value> out;
  if (value.is_array()) {
    out.assign(value.begin(), value.end());
  } else if (value.is_object()) {
    for (const auto& [key, each] : value.items()) out.emplace_back(key);
  } else if (value.is_string()) {
    for (const char32_t point : from_utf8(value.get_ref<const std::string&>()))
      out.emplace_back(to_utf8(std::u32string_view(&point, 1)));
  } else if (!is_undefined(value)) {
    throw Fault(0, format("{} has no elements", kind_name(value)));
  }
  return out;
}

size_t length_of(const Value& value) {
  if (value.is_structured()) return value.size();
  if (value.is_string()) return from_utf8(value.get_ref<const std::string&>()).size();
  if (is_undefined(value)) return 0;
  throw Fault(0, format("{} has no length", kind_name(value)));
}

}  // namespace hyperion::data::jinja

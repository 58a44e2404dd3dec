#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/data/jinja_values.h"
#include "hyperion/data/unicode.h"

namespace hyperion::data::jinja {
namespace {

using base::format;

// The argument at `index` or of this name; nothing where neither is given.
std::optional<Value> argument(const Arguments& arguments, size_t index, std::string_view name) {
  if (index < arguments.positional.size()) return arguments.positional[index];
  for (const auto& [key, value] : arguments.named)
    if (key == name) return value;
  return std::nullopt;
}

void at_most(const Arguments& arguments, size_t count, std::initializer_list<std::string_view> names,
             const std::string& of) {
  if (arguments.positional.size() > count) throw Fault(0, format("{} has too many arguments", of));
  for (const auto& [key, value] : arguments.named)
    if (std::find(names.begin(), names.end(), key) == names.end())
      throw Fault(0, format("the argument {} of {} is not known here", key, of));
}

std::string text_argument(const Arguments& arguments, size_t index, std::string_view name, const std::string& of) {
  const auto value = argument(arguments, index, name);
  if (!value || !value->is_string()) throw Fault(0, format("{} needs a string, its {}", of, name));
  return value->get<std::string>();
}

// Without the characters `set` (spaces where there is no set) at the start and at the end.
std::string stripped(const std::string& text, const std::optional<Value>& set, bool left, bool right) {
  const auto points = from_utf8(text);
  const bool spaces = !set || set->is_null();
  const auto chosen = spaces ? std::u32string() : from_utf8(text_of(*set));
  const auto drops = [&](char32_t point) {
    if (!spaces) return chosen.find(point) != chosen.npos;
    return is_space(class_of(point)) || (point >= 0x1c && point <= 0x1f);
  };
  size_t begin = 0, end = points.size();
  while (left && begin < end && drops(points[begin])) ++begin;
  while (right && end > begin && drops(points[end - 1])) --end;
  return to_utf8(std::u32string_view(points).substr(begin, end - begin));
}

std::string upper_case(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw Fault(0, "the upper case of letters outside ASCII is not known here");
    if (c >= 'a' && c <= 'z') c -= 32;
  }
  return text;
}

std::string capitalized(const std::string& text) {
  return text.empty() ? text
                      : upper_case(text.substr(0, char_size(text[0]))) + lower_case(text.substr(char_size(text[0])));
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to, int64_t count) {
  if (from.empty()) throw Fault(0, "replace needs a text to replace");
  std::string out;
  size_t at = 0;
  for (size_t hit = text.find(from); hit != text.npos && count != 0; hit = text.find(from, at), --count) {
    out.append(text, at, hit - at) += to;
    at = hit + from.size();
  }
  return out += text.substr(at);
}

Value split(const std::string& text, const std::optional<Value>& separator, int64_t most) {
  Value out = Value::array();
  if (separator && !separator->is_null()) {
    const std::string mark = text_of(*separator);
    if (mark.empty()) throw Fault(0, "split needs a separator that is not empty");
    size_t at = 0;
    for (size_t hit = text.find(mark); hit != text.npos && most != 0; hit = text.find(mark, at), --most) {
      out.push_back(text.substr(at, hit - at));
      at = hit + mark.size();
    }
    out.push_back(text.substr(at));
    return out;
  }
  for (std::string rest = stripped(text, {}, true, false); !rest.empty(); rest = stripped(rest, {}, true, false)) {
    size_t end = 0;
    while (end < rest.size() && !is_space(class_of(char_at(&rest[end])))) end += char_size(rest[end]);
    if (most-- == 0) end = rest.size();
    out.push_back(rest.substr(0, end));
    rest.erase(0, end);
  }
  return out;
}

Value pairs_of(const Value& object) {
  Value out = Value::array();
  for (const auto& [key, value] : object.items()) out.push_back(Value::array({key, value}));
  return out;
}

Value list_of(const Value& value) {
  Value out = Value::array();
  for (auto& each : elements_of(value)) out.push_back(std::move(each));
  return out;
}

// "a.b" of a value, as the filters that take an attribute read it.
Value attribute_of(Value value, const std::string& path) {
  size_t at = 0;
  for (size_t dot = path.find('.'); at <= path.size(); dot = path.find('.', at)) {
    value = item_of(value, path.substr(at, dot == path.npos ? dot : dot - at));
    if (dot == path.npos) break;
    at = dot + 1;
  }
  return value;
}

Value mapped(const Value& value, const Arguments& arguments) {
  Value out = Value::array();
  const auto attribute = argument(arguments, 99, "attribute");
  const auto fallback = argument(arguments, 99, "default");
  if (!attribute && arguments.positional.empty()) throw Fault(0, "map needs an attribute or a filter");
  for (const auto& each : elements_of(truth(value) ? value : undefined())) {
    if (attribute) {
      const auto part = attribute_of(each, text_of(*attribute));
      out.push_back(is_undefined(part) && fallback ? *fallback : part);
    } else {
      const auto& all = arguments.positional;
      out.push_back(apply_filter(text_of(all[0]), each, {{all.begin() + 1, all.end()}, arguments.named}));
    }
  }
  return out;
}

// select, reject, selectattr and rejectattr.
Value selected(const std::string& name, const Value& value, const Arguments& arguments) {
  const bool by_attribute = name.ends_with("attr"), keeps = name.starts_with("select");
  const auto& all = arguments.positional;
  const size_t test = by_attribute ? 1 : 0;
  if (all.size() < test) throw Fault(0, format("{} needs an attribute", name));
  Value out = Value::array();
  for (const auto& each : elements_of(truth(value) ? value : undefined())) {
    const auto part = by_attribute ? attribute_of(each, text_of(all[0])) : each;
    const bool holds = all.size() > test
                           ? apply_test(text_of(all[test]), part, {{all.begin() + test + 1, all.end()}, {}})
                           : truth(part);
    if (holds == keeps) out.push_back(each);
  }
  return out;
}

Value joined(const Value& value, const Arguments& arguments) {
  const auto mark = argument(arguments, 0, "d"), attribute = argument(arguments, 1, "attribute");
  std::string out;
  bool first = true;
  for (const auto& each : elements_of(value)) {
    if (!first && mark) out += text_of(*mark);
    first = false;
    out += text_of(attribute ? attribute_of(each, text_of(*attribute)) : each);
  }
  return out;
}

Value to_json(const Value& value, const Arguments& arguments) {
  at_most(arguments, 2, {"indent", "ensure_ascii"}, "tojson");
  const auto ascii = argument(arguments, 0, "ensure_ascii"), indent = argument(arguments, 1, "indent");
  const bool lines = indent && !indent->is_null();
  if (lines && (!indent->is_number_integer() || indent->get<int64_t>() < 0 || indent->get<int64_t>() > 64))
    throw Fault(0, "the indent of tojson is not a whole number from 0 to 64");
  return json_text(value, lines ? indent->get<int>() : -1, ascii && truth(*ascii));
}

Value defaulted(const Value& value, const Arguments& arguments) {
  const auto strict = argument(arguments, 1, "boolean");
  const bool absent = is_undefined(value) || (strict && truth(*strict) && !truth(value));
  return absent ? argument(arguments, 0, "default_value").value_or("") : value;
}

Value to_int(const Value& value) {
  if (value.is_number_float() && !(std::abs(value.get<double>()) < 9e18))
    throw Fault(0, "a number is too large for int");
  if (value.is_number()) return value.get<int64_t>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const auto text = stripped(text_of(value), {}, true, true);
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789", text[0] == '-') != text.npos ||
      text == "-")
    return 0;
  return static_cast<int64_t>(std::stoll(text));
}

using Filter = std::function<Value(const Value&, const Arguments&)>;

const std::map<std::string, Filter>& filters() {
  static const std::map<std::string, Filter> all = {
      {"trim", [](auto& v, auto& a) { return stripped(text_of(v), argument(a, 0, "chars"), true, true); }},
      {"tojson", to_json},
      {"length", [](auto& v, auto&) { return length_of(v); }},
      {"count", [](auto& v, auto&) { return length_of(v); }},
      {"upper", [](auto& v, auto&) { return upper_case(text_of(v)); }},
      {"lower", [](auto& v, auto&) { return lower_case(text_of(v)); }},
      {"capitalize", [](auto& v, auto&) { return capitalized(text_of(v)); }},
      {"default", defaulted},
      {"d", defaulted},
      {"string", [](auto& v, auto&) { return text_of(v); }},
      {"int", [](auto& v, auto&) { return to_int(v); }},
      {"list", [](auto& v, auto&) { return list_of(v); }},
      {"join", joined},
      {"items", [](auto& v, auto&) { return is_undefined(v) ? Value::array() : pairs_of(v); }},
      {"first", [](auto& v, auto&) { return length_of(v) == 0 ? undefined() : elements_of(v).front(); }},
      {"last", [](auto& v, auto&) { return length_of(v) == 0 ? undefined() : elements_of(v).back(); }},
      {"reverse", [](auto& v, auto&) { return slice_of(v, nullptr, nullptr, -1); }},
      {"replace",
       [](auto& v, auto& a) {
         return replaced(text_of(v), text_argument(a, 0, "old", "replace"), text_argument(a, 1, "new", "replace"), -1);
       }},
      {"map", mapped},
  };
  return all;
}

using Test = std::function<bool(const Value&, const Arguments&)>;

bool same_as_first(const Value& value, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Fault(0, "the test needs a value to compare with");
  return equal(value, arguments.positional[0]);
}

const std::map<std::string, Test>& tests() {
  static const std::map<std::string, Test> all = {
      {"defined", [](auto& v, auto&) { return !is_undefined(v); }},
      {"undefined", [](auto& v, auto&) { return is_undefined(v); }},
      {"none", [](auto& v, auto&) { return v.is_null(); }},
      {"string", [](auto& v, auto&) { return v.is_string(); }},
      {"mapping", [](auto& v, auto&) { return v.is_object(); }},
      {"iterable", [](auto& v, auto&) { return v.is_structured() || v.is_string() || is_undefined(v); }},
      {"sequence", [](auto& v, auto&) { return v.is_structured() || v.is_string() || is_undefined(v); }},
      {"number", [](auto& v, auto&) { return v.is_number() || v.is_boolean(); }},
      {"integer", [](auto& v, auto&) { return v.is_number_integer(); }},
      {"float", [](auto& v, auto&) { return v.is_number_float(); }},
      {"boolean", [](auto& v, auto&) { return v.is_boolean(); }},
      {"true", [](auto& v, auto&) { return v.is_boolean() && truth(v); }},
      {"false", [](auto& v, auto&) { return v.is_boolean() && !truth(v); }},
      {"even", [](auto& v, auto&) { return v.is_number_integer() && v.template get<int64_t>() % 2 == 0; }},
      {"odd", [](auto& v, auto&) { return v.is_number_integer() && v.template get<int64_t>() % 2 != 0; }},
      {"equalto", same_as_first},
      {"eq", same_as_first},
      {"==", same_as_first},
      {"ne", [](auto& v, auto& a) { return !same_as_first(v, a); }},
      {"in", [](auto& v, auto& a) { return contains(a.positional.empty() ? undefined() : a.positional[0], v); }},
  };
  return all;
}

Value string_method(const std::string& name, const std::string& text, const Arguments& arguments) {
  const auto ends = [&](auto holds) {
    const auto marks = argument(arguments, 0, "prefix").value_or(undefined());
    if (marks.is_string()) return bool(holds(marks.template get_ref<const std::string&>()));
    const auto all = elements_of(marks);
    return std::any_of(all.begin(), all.end(), [&](const Value& each) { return holds(text_of(each)); });
  };
  if (name == "strip") return stripped(text, argument(arguments, 0, "chars"), true, true);
  if (name == "lstrip") return stripped(text, argument(arguments, 0, "chars"), true, false);
  if (name == "rstrip") return stripped(text, argument(arguments, 0, "chars"), false, true);
  if (name == "startswith") return ends([&](const std::string& mark) { return text.starts_with(mark); });
  if (name == "endswith") return ends([&](const std::string& mark) { return text.ends_with(mark); });
  if (name == "upper") return upper_case(text);
  if (name == "lower") return lower_case(text);
  if (name == "capitalize") return capitalized(text);
  const auto whole = [&](size_t index, std::string_view key) {
    const auto value = argument(arguments, index, key);
    return value && value->is_number_integer() ? value->get<int64_t>() : int64_t{-1};
  };
  if (name == "split") return split(text, argument(arguments, 0, "sep"), whole(1, "maxsplit"));
  if (name == "replace")
    return replaced(text, text_argument(arguments, 0, "old", name), text_argument(arguments, 1, "new", name),
                    whole(2, "count"));
  if (name == "join") {
    if (arguments.positional.empty()) throw Fault(0, "join needs a list");
    return joined(arguments.positional[0], {{Value(text)}, {}});
  }
  if (name == "find") {
    const size_t hit = text.find(text_argument(arguments, 0, "sub", name));
    return hit == text.npos ? Value(-1) : Value(from_utf8(std::string_view(text).substr(0, hit)).size());
  }
  throw Fault(0, format("the method {} of a string is not known here", name));
}

}  // namespace

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments) {
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return selected(name, value, arguments);
  if (name == "safe") throw Fault(0, "the filter safe is known only as the last of what is printed");
  const auto found = filters().find(name);
  if (found == filters().end()) throw Fault(0, format("the filter {} is not known here", name));
  return found->second(value, arguments);
}

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) throw Fault(0, format("the test \"is {}\" is not known here", name));
  return found->second(value, arguments);
}

Value call_method(const std::string& name, const Value& object, const Arguments& arguments) {
  if (object.is_string()) return string_method(name, object.get_ref<const std::string&>(), arguments);
  if (object.is_object()) {
    if (name == "items") return pairs_of(object);
    if (name == "keys") return list_of(object);
    if (name == "get") {
      const auto found = item_of(object, argument(arguments, 0, "key").value_or(undefined()));
      return is_undefined(found) ? argument(arguments, 1, "default").value_or(nullptr) : found;
    }
    if (name == "values") {
      Value out = Value::array();
      for (const auto& each : object) out.push_back(each);
      return out;
    }
  }
  throw Fault(0, format("the method {} of {} is not known here", name, kind_name(object)));
}

}  // namespace hyperion::data::jinja

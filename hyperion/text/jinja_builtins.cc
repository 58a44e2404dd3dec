#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_budget.h"
#include "hyperion/text/jinja_values.h"
#include "hyperion/text/unicode.h"

namespace hyperion::text::jinja {
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

Value text_argument(const Arguments& arguments, size_t index, std::string_view name, const std::string& of) {
  const auto value = argument(arguments, index, name);
  if (!value || !value->is_text()) throw Fault(0, format("{} needs a string, its {}", of, name));
  return *value;
}

// Without the characters `set` (spaces where there is no set) at the start and at the end.
std::string stripped(const std::string& text, const std::optional<Value>& set, bool left, bool right) {
  const bool spaces = !set || set->is_none();
  const auto chosen = spaces ? std::u32string() : from_utf8(text_of(*set));
  const auto drops = [&](size_t at) {
    const char32_t point = char_at(&text[at]);
    spend_on_text(4 * chosen.size());
    if (!spaces) return chosen.find(point) != chosen.npos;
    return is_space(class_of(point)) || (point >= 0x1c && point <= 0x1f);
  };
  const auto before = [&](size_t end) {
    do --end;
    while ((text[end] & 0xC0) == 0x80);
    return end;
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end && drops(begin)) begin += char_size(text[begin]);
  while (right && end > begin && drops(before(end))) end = before(end);
  return text.substr(begin, end - begin);
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

std::string replaced(const std::string& text, const Value& old, const Value& fresh, int64_t count) {
  const std::string &from = old.text(), &to = fresh.text();
  if (from.empty()) throw Fault(0, "replace needs a text to replace");
  const std::string_view all = text;
  std::string out;
  size_t at = 0;
  for (size_t hit = place_of(from, all); hit != all.npos && count != 0; hit = place_of(from, all, at), --count) {
    append(out, all.substr(at, hit - at));
    append(out, to);
    at = hit + from.size();
  }
  append(out, all.substr(at));
  return out;
}

Value split(const std::string& text, const std::optional<Value>& separator, int64_t most) {
  Value::List out;
  const auto add = [&](size_t from, size_t to) {
    spend_on_text(64 + to - from);
    out.push_back(text.substr(from, to - from));
  };
  size_t at = 0;
  if (separator && !separator->is_none()) {
    const std::string mark = text_of(*separator);
    if (mark.empty()) throw Fault(0, "split needs a separator that is not empty");
    for (size_t hit = place_of(mark, text); hit != text.npos && most != 0; hit = place_of(mark, text, at), --most) {
      add(at, hit);
      at = hit + mark.size();
    }
    add(at, text.size());
    return Value::list(std::move(out));
  }
  const auto run_of = [&](size_t from, bool spaces) {
    while (from < text.size() && is_space(class_of(char_at(&text[from]))) == spaces) from += char_size(text[from]);
    return from;
  };
  for (at = run_of(0, true); at < text.size(); at = run_of(at, true)) {
    const size_t end = most-- == 0 ? text.size() : run_of(at, false);
    add(at, end);
    at = end;
  }
  return Value::list(std::move(out));
}

Value pairs_of(const Value& object) {
  if (!object.is_map()) throw Fault(0, format("{} has no items", kind_name(object)));
  Value::List out;
  for (const auto& [key, value] : object.pairs()) {
    spend_on_text(64 + key.size());
    out.push_back(Value::list({key, value}));
  }
  return Value::list(std::move(out));
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
  Value::List out;
  const auto attribute = argument(arguments, 99, "attribute");
  const auto fallback = argument(arguments, 99, "default");
  if (!attribute && arguments.positional.empty()) throw Fault(0, "map needs an attribute or a filter");
  const Value elements = elements_of(truth(value) ? value : Value());
  for (const auto& each : elements.items()) {
    if (attribute) {
      const auto part = attribute_of(each, text_of(*attribute));
      out.push_back(part.is_undefined() && fallback ? *fallback : part);
    } else {
      const auto& all = arguments.positional;
      spend(all.size());
      out.push_back(apply_filter(text_of(all[0]), each, {{all.begin() + 1, all.end()}, arguments.named}));
    }
  }
  return Value::list(std::move(out));
}

// select, reject, selectattr and rejectattr.
Value selected(const std::string& name, const Value& value, const Arguments& arguments) {
  const bool by_attribute = name.ends_with("attr"), keeps = name.starts_with("select");
  const auto& all = arguments.positional;
  const size_t test = by_attribute ? 1 : 0;
  if (all.size() < test) throw Fault(0, format("{} needs an attribute", name));
  Value::List out;
  const Value elements = elements_of(truth(value) ? value : Value());
  for (const auto& each : elements.items()) {
    spend(1 + all.size());
    const auto part = by_attribute ? attribute_of(each, text_of(all[0])) : each;
    const bool holds = all.size() > test
                           ? apply_test(text_of(all[test]), part, {{all.begin() + test + 1, all.end()}, {}})
                           : truth(part);
    if (holds == keeps) out.push_back(each);
  }
  return Value::list(std::move(out));
}

Value joined(const Value& value, const Arguments& arguments) {
  const auto mark = argument(arguments, 0, "d"), attribute = argument(arguments, 1, "attribute");
  std::string out;
  bool first = true;
  const Value elements = elements_of(value);
  for (const auto& each : elements.items()) {
    if (!first && mark) append(out, text_of(*mark));
    first = false;
    append(out, text_of(attribute ? attribute_of(each, text_of(*attribute)) : each));
  }
  return out;
}

Value to_json(const Value& value, const Arguments& arguments) {
  at_most(arguments, 2, {"indent", "ensure_ascii"}, "tojson");
  const auto ascii = argument(arguments, 0, "ensure_ascii"), indent = argument(arguments, 1, "indent");
  const bool lines = indent && !indent->is_none();
  if (lines && (!indent->is_whole() || indent->as_whole() < 0 || indent->as_whole() > 64))
    throw Fault(0, "the indent of tojson is not a whole number from 0 to 64");
  return json_text(value, lines ? static_cast<int>(indent->as_whole()) : -1, ascii && truth(*ascii));
}

Value defaulted(const Value& value, const Arguments& arguments) {
  const auto strict = argument(arguments, 1, "boolean");
  const bool absent = value.is_undefined() || (strict && truth(*strict) && !truth(value));
  return absent ? argument(arguments, 0, "default_value").value_or("") : value;
}

Value to_int(const Value& value) {
  if (value.is_real() && !(std::abs(value.as_real()) < 9e18)) throw Fault(0, "a number is too large for int");
  if (value.is_number() || value.is_bool()) return value.as_whole();
  const auto text = stripped(text_of(value), {}, true, true);
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789", text[0] == '-') != text.npos ||
      text == "-")
    return 0;
  return static_cast<int64_t>(std::stoll(text));
}

// The first element, or with -1 the last.
Value end_of(const Value& value, int index) {
  if (length_of(value) == 0) return {};
  return item_of(value.is_map() ? elements_of(value) : value, index);
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
      {"list", [](auto& v, auto&) { return elements_of(v); }},
      {"join", joined},
      {"items", [](auto& v, auto&) { return v.is_undefined() ? Value::list() : pairs_of(v); }},
      {"first", [](auto& v, auto&) { return end_of(v, 0); }},
      {"last", [](auto& v, auto&) { return end_of(v, -1); }},
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

bool has_elements(const Value& value) {
  return value.is_list() || value.is_map() || value.is_text() || value.is_undefined();
}

bool same_as_first(const Value& value, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Fault(0, "the test needs a value to compare with");
  return equal(value, arguments.positional[0]);
}

const std::map<std::string, Test>& tests() {
  static const std::map<std::string, Test> all = {
      {"defined", [](auto& v, auto&) { return !v.is_undefined(); }},
      {"undefined", [](auto& v, auto&) { return v.is_undefined(); }},
      {"none", [](auto& v, auto&) { return v.is_none(); }},
      {"string", [](auto& v, auto&) { return v.is_text(); }},
      {"mapping", [](auto& v, auto&) { return v.is_map(); }},
      {"iterable", [](auto& v, auto&) { return has_elements(v); }},
      {"sequence", [](auto& v, auto&) { return has_elements(v); }},
      {"number", [](auto& v, auto&) { return v.is_number() || v.is_bool(); }},
      {"integer", [](auto& v, auto&) { return v.is_whole(); }},
      {"float", [](auto& v, auto&) { return v.is_real(); }},
      {"boolean", [](auto& v, auto&) { return v.is_bool(); }},
      {"true", [](auto& v, auto&) { return v.is_bool() && v.as_bool(); }},
      {"false", [](auto& v, auto&) { return v.is_bool() && !v.as_bool(); }},
      {"even", [](auto& v, auto&) { return v.is_whole() && v.as_whole() % 2 == 0; }},
      {"odd", [](auto& v, auto&) { return v.is_whole() && v.as_whole() % 2 != 0; }},
      {"equalto", same_as_first},
      {"eq", same_as_first},
      {"==", same_as_first},
      {"ne", [](auto& v, auto& a) { return !same_as_first(v, a); }},
      {"in", [](auto& v, auto& a) { return contains(a.positional.empty() ? Value() : a.positional[0], v); }},
  };
  return all;
}

Value string_method(const std::string& name, const std::string& text, const Arguments& arguments) {
  const auto ends = [&](auto holds) {
    const auto marks = argument(arguments, 0, "prefix").value_or(Value());
    if (marks.is_text()) return bool(holds(marks.text()));
    const Value all = elements_of(marks);
    return std::any_of(all.items().begin(), all.items().end(), [&](const Value& each) { return holds(text_of(each)); });
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
    return value && value->is_whole() ? value->as_whole() : int64_t{-1};
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
    const size_t hit = place_of(text_argument(arguments, 0, "sub", name).text(), text);
    return hit == text.npos ? Value(-1) : Value(count_chars(std::string_view(text).substr(0, hit)));
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
  spend_on_text(value.is_text() ? value.text().size() : 0);
  return found->second(value, arguments);
}

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) throw Fault(0, format("the test \"is {}\" is not known here", name));
  return found->second(value, arguments);
}

Value call_method(const std::string& name, const Value& object, const Arguments& arguments) {
  if (object.is_text()) {
    spend_on_text(object.text().size());
    return string_method(name, object.text(), arguments);
  }
  if (object.is_map()) {
    spend(object.pairs().size());
    if (name == "items") return pairs_of(object);
    if (name == "keys") return elements_of(object);
    if (name == "get") {
      const auto found = item_of(object, argument(arguments, 0, "key").value_or(Value()));
      return found.is_undefined() ? argument(arguments, 1, "default").value_or(nullptr) : found;
    }
    if (name == "values") {
      Value::List out;
      for (const auto& [key, each] : object.pairs()) out.push_back(each);
      return Value::list(std::move(out));
    }
  }
  throw Fault(0, format("the method {} of {} is not known here", name, kind_name(object)));
}

}  // namespace hyperion::text::jinja

// What Python makes of the values of a template: their truth, text, order and parts; and Jinja's filters, tests and
// methods. All throw Fault.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyperion/text/jinja_tree.h"

namespace hyperion::text::jinja {

bool truth(const Value& value);
std::string kind_name(const Value& value);                          // "string", for messages
std::string text_of(const Value& value);                            // str()
std::string json_text(const Value& value, int indent, bool ascii);  // json.dumps; indent < 0: on one line
bool equal(const Value& left, const Value& right);
bool contains(const Value& container, const Value& value);
Value binary_operation(const std::string& sign, const Value& left, const Value& right);  // but for and, or
Value item_of(const Value& container, const Value& key);  // undefined where there is none
Value slice_of(const Value& container, const Value& from, const Value& to, const Value& step);
Value elements_of(const Value& value);  // of iteration, as a list: items, keys or characters
size_t length_of(const Value& value);
size_t count_chars(std::string_view text);

struct Arguments {
  Value::List positional;
  std::vector<std::pair<std::string, Value>> named;
};
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments);
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments);
Value call_method(const std::string& name, const Value& object, const Arguments& arguments);

}  // namespace hyperion::text::jinja

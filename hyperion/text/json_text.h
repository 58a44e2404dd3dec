// JSON as the text it is: the parts of an object or array as views, none decoded before it is asked for. Strict (RFC
// 8259), at most 200 deep. For records by the million, of which a field or two are wanted; base/json.h is for the rest.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::text {

// Thrown by the functions that check.
struct JsonError {
  size_t at;         // byte of the text
  std::string what;  // "a ':' is missing"
};

struct JsonMember {
  std::string_view key;    // between its quotes, as written
  std::string_view value;  // from its first byte to its last
};

// Checks the whole text, but not its UTF-8, which is taken to be valid. Where a key stands twice, so do its members.
// More than 65536 parts are refused.
std::vector<JsonMember> json_members(std::string_view object);
std::vector<std::string_view> json_elements(std::string_view array);

bool json_key_is(std::string_view key, std::string_view wanted);

// Of a value that was checked: "an object", "an array", "text", "a number", "true or false", "null".
const char* json_kind(std::string_view value);
inline bool json_is_text(std::string_view value) { return value[0] == '"'; }
inline bool json_is_object(std::string_view value) { return value[0] == '{'; }
inline bool json_is_null(std::string_view value) { return value[0] == 'n'; }
inline bool json_is_array(std::string_view value) { return value[0] == '['; }

// What a string says that was checked, its escapes resolved.
std::string json_string(std::string_view value);

// The first byte that is a quote, a backslash or a control character (which no string may hold); `end` if none is.
const char* find_string_break(const char* begin, const char* end);

}  // namespace hyperion::text

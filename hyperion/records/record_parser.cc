#include "hyperion/records/record_parser.h"

#include <algorithm>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"

namespace hyperion::records {
namespace {

using base::format;

bool is_json(const RawRecord& record, RecordFormat record_format) {
  if (record_format == RecordFormat::tar) return record.file->ends_with(".json");
  return record_format == RecordFormat::jsonl || record_format == RecordFormat::json ||
         record_format == RecordFormat::parquet;
}

// The fields of one record; what is amiss is told with its place.
class Fields {
 public:
  Fields(const RawRecord& record, RecordFormat record_format)
      : record_(record), one_of_an_array_(record_format == RecordFormat::json) {
    if (const size_t valid = text::valid_prefix(record.bytes); valid < record.bytes.size())
      fail_at(valid, "has invalid UTF-8");
    try {
      members_ = text::json_members(record.bytes);
    } catch (const text::JsonError& error) {
      fail_at(error.at, "is not a JSON object: " + error.what);
    }
  }

  std::string text(const std::string& field) const {
    const std::string_view value = find(members_, field, field);
    if (!text::json_is_text(value))
      fail(format("field \"{}\" is {}, and text is needed", field, text::json_kind(value)));
    std::string text = text::json_string(value);
    if (text.empty()) fail(format("field \"{}\" is empty", field));
    return text;
  }

  std::vector<text::ChatMessage> messages(const std::string& field) const {
    const std::string_view value = find(members_, field, field);
    if (!text::json_is_array(value))
      fail(format("field \"{}\" is {}, and an array is needed", field, text::json_kind(value)));
    std::vector<text::ChatMessage> messages;
    for (const std::string_view element : text::json_elements(value)) {
      const std::string name = format("{}[{}]", field, messages.size());
      if (!text::json_is_object(element))
        fail(format("\"{}\" is {}, and an object is needed", name, text::json_kind(element)));
      messages.push_back(message(element, name));
    }
    if (messages.empty()) fail(format("field \"{}\" has no message", field));
    return messages;
  }

  // As a JSON array; empty where there are none.
  std::string tools(const std::string& field) const {
    const auto value = field.empty() ? std::nullopt : seek(members_, field);
    if (!value) {
      const text::JsonMember* others = field == "tools" ? last(members_, "functions") : nullptr;
      if (others != nullptr && text::json_is_array(others->value) && !text::json_elements(others->value).empty())
        fail("has \"functions\", which are not taken", "prepare.tools = \"functions\" takes them, and \"\" none");
      return {};
    }
    std::string tools = text::json_is_text(*value) ? text::json_string(*value) : std::string(*value);
    if (tools.empty() || tools == "null") return {};
    try {
      for (const std::string_view tool : text::json_elements(tools))
        if (!text::json_is_object(tool))
          fail(format("\"{}\" has {}, and objects are needed", field, text::json_kind(tool)));
    } catch (const text::JsonError& error) {
      fail(format("field \"{}\" is not a JSON array: {}", field, error.what));
    }
    return tools;
  }

 private:
  text::ChatMessage message(std::string_view object, const std::string& name) const {
    const auto members = text::json_members(object);
    const bool share_gpt = last(members, "role") == nullptr && last(members, "from") != nullptr;
    const char *role_key = share_gpt ? "from" : "role", *content_key = share_gpt ? "value" : "content";
    const auto text = [&](const char* key) {
      const std::string_view value = find(members, key, name + "." + key);
      if (!text::json_is_text(value))
        fail(format("\"{}.{}\" is {}, and text is needed", name, key, text::json_kind(value)));
      return text::json_string(value);
    };
    text::ChatMessage message{text(role_key), {}};
    if (message.role.empty()) fail(format("\"{}\" has an empty role", name));
    if (share_gpt && message.role == "human") message.role = "user";
    if (share_gpt && message.role == "gpt") message.role = "assistant";
    const text::JsonMember* content = last(members, content_key);
    const bool is_null = content == nullptr || text::json_is_null(content->value), calls = has_calls(members);
    if (!is_null || !calls) message.content = text(content_key);
    if (message.content.empty() && !calls && message.role != "system" && message.role != "tool")
      fail(format("the text of \"{}\" is empty", name));

    const auto is_role = [&](const text::JsonMember& member) { return text::json_key_is(member.key, role_key); };
    const auto is_content = [&](const text::JsonMember& member) { return text::json_key_is(member.key, content_key); };
    // Tables of one shape for all messages have a null where a message has nothing.
    const auto is_nothing = [&](const text::JsonMember& member) {
      return text::json_is_null(member.value) && !is_content(member);
    };
    if (!is_null && std::all_of(members.begin(), members.end(), [&](const text::JsonMember& member) {
          return is_role(member) || is_content(member) || is_nothing(member);
        }))
      return message;
    for (const text::JsonMember& member : members) {
      if (is_nothing(member)) continue;
      message.whole += message.whole.empty() ? "{" : ", ";
      if (is_role(member) && share_gpt && message.role != text::json_string(member.value))
        message.whole += format("\"role\": \"{}\"", message.role);
      else
        message.whole += format("\"{}\": {}",
                                is_role(member)      ? "role"
                                : is_content(member) ? "content"
                                                     : member.key,
                                member.value);
    }
    message.whole += "}";
    return message;
  }

  static bool has_calls(const std::vector<text::JsonMember>& members) {
    const text::JsonMember *calls = last(members, "tool_calls"), *call = last(members, "function_call");
    return (calls != nullptr && text::json_is_array(calls->value) && !text::json_elements(calls->value).empty()) ||
           (call != nullptr && text::json_is_object(call->value));
  }

  // Where a key stands twice the last one counts, as for most readers of JSON.
  static const text::JsonMember* last(const std::vector<text::JsonMember>& members, std::string_view key) {
    const auto found = std::find_if(members.rbegin(), members.rend(),
                                    [&](const text::JsonMember& member) { return text::json_key_is(member.key, key); });
    return found == members.rend() ? nullptr : &*found;
  }

  // `whole`: the name to tell, of which `path` is what is left to follow.
  std::string_view find(const std::vector<text::JsonMember>& members, std::string_view path,
                        std::string_view whole) const {
    if (const text::JsonMember* member = last(members, path)) return member->value;
    const size_t dot = path.find('.');
    const text::JsonMember* outer = dot == std::string_view::npos ? nullptr : last(members, path.substr(0, dot));
    if (outer == nullptr) fail(format("has no field \"{}\"; there is {}", whole, names(members)));
    if (!text::json_is_object(outer->value))
      fail(format("has no field \"{}\": \"{}\" is {}", whole, path.substr(0, dot), text::json_kind(outer->value)));
    return find(text::json_members(outer->value), path.substr(dot + 1), whole);
  }

  static std::optional<std::string_view> seek(const std::vector<text::JsonMember>& members, std::string_view path) {
    if (const text::JsonMember* member = last(members, path)) return member->value;
    const size_t dot = path.find('.');
    const text::JsonMember* outer = dot == std::string_view::npos ? nullptr : last(members, path.substr(0, dot));
    if (outer == nullptr || !text::json_is_object(outer->value)) return std::nullopt;
    return seek(text::json_members(outer->value), path.substr(dot + 1));
  }

  static std::string names(const std::vector<text::JsonMember>& members) {
    constexpr size_t kMost = 10, kMostBytes = 40;
    std::string list;
    for (size_t i = 0; i < std::min(members.size(), kMost); ++i) {
      const std::string_view key = members[i].key.substr(0, kMostBytes);
      list += format("{}\"{}\"", i == 0 ? "" : ", ", key.substr(0, text::valid_prefix(key)));
    }
    if (members.size() > kMost) list += format(" and {} more", members.size() - kMost);
    return list.empty() ? "none" : list;
  }

  // An array may be one long line: there only the byte finds the record.
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw BadRecord(*record_.file, record_.line,
                    one_of_an_array_ ? format("{} (record at byte {})", what, record_.byte) : what, hint);
  }

  [[noreturn]] void fail_at(size_t byte, const std::string& what) const {
    const std::string_view before = std::string_view(record_.bytes).substr(0, byte);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const size_t column = byte - (before.rfind('\n') + 1) + 1;
    throw BadRecord(*record_.file, std::max<int64_t>(record_.line, 1) + lines,
                    one_of_an_array_ && lines == 0 ? format("{} (byte {})", what, record_.byte + byte)
                                                   : format("{} (column {})", what, column));
  }

  const RawRecord& record_;
  bool one_of_an_array_;
  std::vector<text::JsonMember> members_;
};

}  // namespace

void check_mapping(RecordFormat record_format, const FieldMapping& mapping) {
  const bool has_fields = record_format == RecordFormat::jsonl || record_format == RecordFormat::json ||
                          record_format == RecordFormat::tar || record_format == RecordFormat::parquet;
  if (!has_fields && (!mapping.messages.empty() || !mapping.chat.empty()))
    throw base::ConfigError("fields make a chat of JSON records, and this format has none",
                            "name the format: jsonl or json");
}

Document parse_record(const RawRecord& record, RecordFormat record_format, const FieldMapping& mapping) {
  Document document;
  if (!is_json(record, record_format)) {
    if (record.bytes.empty()) throw BadRecord(*record.file, record.line, "is empty");
    document.text = record.bytes;
    return document;
  }
  const Fields fields(record, record_format);
  if (!mapping.messages.empty()) {
    document.messages = fields.messages(mapping.messages);
    document.tools = fields.tools(mapping.tools);
  } else if (!mapping.chat.empty()) {
    for (const auto& [role, field] : mapping.chat) document.messages.push_back({role, fields.text(field)});
  } else {
    document.text = fields.text(mapping.text);
  }
  return document;
}

}  // namespace hyperion::records

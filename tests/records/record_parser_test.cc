#include "hyperion/records/record_parser.h"

#include <gtest/gtest.h>

#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "tests/base/support_child.h"

namespace hyperion::records {
namespace {

using base::test::error_of;

RawRecord raw(std::string bytes, std::string file = "f.jsonl", int64_t line = 7) {
  return {std::move(bytes), std::make_shared<const std::string>(std::move(file)), line, 100};
}

std::string chat_text(const Document& document) {
  std::string text;
  for (const auto& message : document.messages) text += message.role + "<" + message.content + ">";
  return text;
}

std::string text_of(const std::string& json, const std::string& field = "text") {
  return parse_record(raw(json), RecordFormat::jsonl, {.text = field, .chat = {}, .messages = {}}).text;
}
std::string chat_of(const std::string& json) {
  return chat_text(parse_record(raw(json), RecordFormat::jsonl,
                                {.text = {}, .chat = {{"user", "query"}, {"assistant", "response"}}, .messages = {}}));
}
std::string messages_of(const std::string& json) {
  return chat_text(parse_record(raw(json), RecordFormat::jsonl, {.text = {}, .chat = {}, .messages = "conversations"}));
}
template <class Parse>
std::string refusal(Parse parse) {
  try {
    parse();
  } catch (const BadRecord& bad) {
    return bad.what();
  }
  return "";
}

TEST(RecordParser, text_of_formats_without_fields_is_taken_as_it_is) {
  for (const auto format : {RecordFormat::text, RecordFormat::lines, RecordFormat::wikitext})
    EXPECT_EQ(parse_record(raw("{\"text\": \xff"), format, {}).text, "{\"text\": \xff");
  EXPECT_EQ(parse_record(raw("{", "a.tar/a.txt"), RecordFormat::tar, {}).text, "{");
  EXPECT_EQ(parse_record(raw("{\"text\": \"a\"}", "a.tar/a.json"), RecordFormat::tar, {}).text, "a");
  EXPECT_EQ(refusal([] { parse_record(raw("", "a.tar/a.txt", 0), RecordFormat::tar, {}); }), "a.tar/a.txt: is empty");
}

TEST(RecordParser, strings_are_decoded) {
  EXPECT_EQ(text_of(R"( {"text" : "a\"\\\/\b\f\n\r\tz é 😀 \u00e9\uD83D\ude00" , "n": [1, -0.5e+3, {"text": null}]} )"),
            "a\"\\/\b\f\n\r\tz é 😀 é😀");
  EXPECT_EQ(text_of(R"({"te\u0078t": "\u0000"})"), std::string(1, '\0'));
  EXPECT_EQ(text_of(R"({"text": "first", "text": "last"})"), "last");
}

TEST(RecordParser, dots_lead_into_objects) {
  EXPECT_EQ(text_of(R"({"a": {"b": {"c": "deep"}}})", "a.b.c"), "deep");
  EXPECT_EQ(text_of(R"({"a": {"b": 1}, "a.b": "plain"})", "a.b"), "plain");
  EXPECT_EQ(text_of(R"({"a": {"b.c": "both"}})", "a.b.c"), "both");
  EXPECT_EQ(refusal([] { text_of(R"({"a": {"x": 1, "y": 2}})", "a.b"); }),
            R"(f.jsonl:7: has no field "a.b"; there is "x", "y")");
  EXPECT_EQ(refusal([] { text_of(R"({"a": "text"})", "a.b"); }), R"(f.jsonl:7: has no field "a.b": "a" is text)");
}

TEST(RecordParser, fields_make_a_chat) {
  EXPECT_EQ(chat_of(R"({"query": "2+2?", "response": "4", "type": "GSM"})"), "user<2+2?>assistant<4>");
  EXPECT_EQ(refusal([] { chat_of(R"({"query": "2+2?", "answer": "4"})"); }),
            R"(f.jsonl:7: has no field "response"; there is "query", "answer")");
}

TEST(RecordParser, messages_make_a_chat_in_both_spellings) {
  EXPECT_EQ(messages_of(
                R"({"conversations": [{"role": "user", "content": "hi", "x": 1}, {"role": "tool", "content": "t"}]})"),
            "user<hi>tool<t>");
  EXPECT_EQ(messages_of(R"({"conversations": [{"from": "system", "value": ""}, {"from": "human", "value": "hi"},
                            {"value": "yes", "from": "gpt"}]})"),
            "system<>user<hi>assistant<yes>");
  const auto told = [](const char* messages) {
    return refusal([&] { messages_of(base::format("{{\"conversations\": {}}}", messages)); });
  };
  EXPECT_EQ(told("\"x\""), "f.jsonl:7: field \"conversations\" is text, and an array is needed");
  EXPECT_EQ(told("[]"), "f.jsonl:7: field \"conversations\" has no message");
  EXPECT_EQ(told("[3]"), "f.jsonl:7: \"conversations[0]\" is a number, and an object is needed");
  EXPECT_EQ(told(R"([{"role": "user", "content": null}])"),
            "f.jsonl:7: \"conversations[0].content\" is null, and text is needed");
  EXPECT_EQ(told(R"([{"role": "user"}])"), R"(f.jsonl:7: has no field "conversations[0].content"; there is "role")");
  EXPECT_EQ(told(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}])"),
            "f.jsonl:7: the text of \"conversations[1]\" is empty");
  EXPECT_EQ(told(R"([{"role": "", "content": "a"}])"), "f.jsonl:7: \"conversations[0]\" has an empty role");
}

TEST(RecordParser, messages_are_kept_whole_where_they_are_more_than_a_role_and_a_text) {
  const auto whole = [](const std::string& message) {
    return parse_record(raw(base::format("{{\"conversations\": [{}]}}", message)), RecordFormat::jsonl,
                        {.text = {}, .chat = {}, .messages = "conversations"})
        .messages.at(0)
        .whole;
  };
  EXPECT_EQ(whole(R"({"role": "user", "content": "hi", "name": null})"), "");
  EXPECT_EQ(whole(R"({"name": "Ann", "content": "\u00e9", "role": "user", "id": null})"),
            R"({"name": "Ann", "content": "\u00e9", "role": "user"})");
  EXPECT_EQ(whole(R"({"from": "gpt", "value": "hi", "tool_calls": [{"n": 1.0}]})"),
            R"({"role": "assistant", "content": "hi", "tool_calls": [{"n": 1.0}]})");
  for (const char* content : {R"("content": null, )", R"("content": "", )", ""})
    EXPECT_EQ(whole(base::format(R"({{"role": "assistant", {}"tool_calls": [{{}}]}})", content)),
              base::format(R"({{"role": "assistant", {}"tool_calls": [{{}}]}})", content));
  EXPECT_EQ(whole(R"({"role": "assistant", "content": null, "function_call": {"name": "f"}})"),
            R"({"role": "assistant", "content": null, "function_call": {"name": "f"}})");
  EXPECT_EQ(whole(R"({"role": "tool", "content": ""})"), "");
  for (const char* calls : {"[]", "null", "\"x\""})
    EXPECT_EQ(
        refusal([&] { whole(base::format(R"({{"role": "assistant", "content": null, "tool_calls": {}}})", calls)); }),
        "f.jsonl:7: \"conversations[0].content\" is null, and text is needed");
}

TEST(RecordParser, tools_of_a_record_go_with_its_messages) {
  const auto tools = [](const std::string& members, const std::string& field = "tools") {
    return parse_record(raw(R"({"messages": [{"role": "user", "content": "a"}])" + members + "}"), RecordFormat::jsonl,
                        {.text = {}, .chat = {}, .messages = "messages", .tools = field})
        .tools;
  };
  EXPECT_EQ(tools(""), "");
  for (const char* none : {"null", "\"\"", "\"null\""}) EXPECT_EQ(tools(base::format(", \"tools\": {}", none)), "");
  EXPECT_EQ(tools(R"(, "tools": [])"), "[]");
  EXPECT_EQ(tools(R"(, "tools": [{"name": "f"}])"), R"([{"name": "f"}])");
  EXPECT_EQ(tools(R"(, "tools": "[{\"name\": \"f\"}]")"), R"([{"name": "f"}])");
  EXPECT_EQ(tools(R"(, "functions": [{"name": "f"}])", "functions"), R"([{"name": "f"}])");
  EXPECT_EQ(tools(R"(, "meta": {"tools": [{"name": "f"}]})", "meta.tools"), R"([{"name": "f"}])");
  EXPECT_EQ(tools(R"(, "meta": 1)", "meta.tools"), "");
  EXPECT_EQ(tools(R"(, "tools": 5, "functions": [{}])", ""), "");
  const auto told = [&](const char* members) { return refusal([&] { tools(members); }); };
  EXPECT_EQ(told(R"(, "functions": [{"name": "f"}])"), "f.jsonl:7: has \"functions\", which are not taken");
  EXPECT_EQ(told(R"(, "tools": [3])"), "f.jsonl:7: \"tools\" has a number, and objects are needed");
  EXPECT_EQ(told(R"(, "tools": {})"), "f.jsonl:7: field \"tools\" is not a JSON array: it is not an array");
  EXPECT_EQ(told(R"(, "tools": "f")"), "f.jsonl:7: field \"tools\" is not a JSON array: it is not an array");
}

TEST(RecordParser, wrong_types_and_empty_texts_are_refused) {
  EXPECT_EQ(refusal([] { text_of(R"({"text": 5})"); }), "f.jsonl:7: field \"text\" is a number, and text is needed");
  EXPECT_EQ(refusal([] { text_of(R"({"text": true})"); }),
            "f.jsonl:7: field \"text\" is true or false, and text is needed");
  EXPECT_EQ(refusal([] { text_of(R"({"text": ["a"]})"); }),
            "f.jsonl:7: field \"text\" is an array, and text is needed");
  EXPECT_EQ(refusal([] { text_of(R"({"text": ""})"); }), "f.jsonl:7: field \"text\" is empty");
  EXPECT_EQ(refusal([] { text_of("{}"); }), "f.jsonl:7: has no field \"text\"; there is none");
  std::string many;
  for (int i = 0; i < 12; ++i) many += base::format("\"{}\": 0, ", i);
  EXPECT_EQ(refusal([&] { text_of("{" + many + "\"" + std::string(50, 'k') + "\": 1}"); }),
            R"(f.jsonl:7: has no field "text"; there is "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" and 3 more)");
}

TEST(RecordParser, what_is_not_json_is_refused_with_its_place) {
  const auto told = [](const std::string& json) { return refusal([&] { text_of(json); }); };
  EXPECT_EQ(told(R"({"text": "a")"), "f.jsonl:7: is not a JSON object: it ends too early (column 13)");
  EXPECT_EQ(told(R"({"text" "a"})"), "f.jsonl:7: is not a JSON object: a ':' is missing (column 9)");
  EXPECT_EQ(told("{\"text\":\n \"a\" 1}"), "f.jsonl:8: is not a JSON object: a ',' or '}' is missing (column 6)");
  EXPECT_EQ(told("[]"), "f.jsonl:7: is not a JSON object: it is not an object (column 1)");
  EXPECT_EQ(told("{\"text\": \"a\xff\"}"), "f.jsonl:7: has invalid UTF-8 (column 12)");
  EXPECT_EQ(told("{\"text\": \"\\ud800\"}").substr(0, 70),
            "f.jsonl:7: is not a JSON object: half of a surrogate pair stands alone");
  EXPECT_NE(told("{\"text\": " + std::string(300, '[')).find("200 deep"), std::string::npos);
  EXPECT_NE(told("{\"text\": \"a\tb\"}").find("control character"), std::string::npos);
}

TEST(RecordParser, in_an_array_the_byte_of_the_file_is_told) {
  const auto told = [](const std::string& json) {
    return refusal([&] { parse_record(raw(json, "f.json", 1), RecordFormat::json, {}); });
  };
  EXPECT_EQ(told("{\"text\" 1}"), "f.json:1: is not a JSON object: a ':' is missing (byte 108)");
  EXPECT_EQ(told("{}"), "f.json:1: has no field \"text\"; there is none (record at byte 100)");
  EXPECT_EQ(told("{\n\"text\" 1}"), "f.json:2: is not a JSON object: a ':' is missing (column 8)");
}

TEST(RecordParser, a_chat_of_a_format_without_fields_is_refused_before_the_start) {
  FieldMapping chat;
  chat.messages = "messages";
  EXPECT_THROW(check_mapping(RecordFormat::lines, chat), base::ConfigError);
  EXPECT_NO_THROW(check_mapping(RecordFormat::jsonl, chat));
  EXPECT_NO_THROW(check_mapping(RecordFormat::lines, {}));
}

}  // namespace
}  // namespace hyperion::records

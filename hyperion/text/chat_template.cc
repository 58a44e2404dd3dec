#include "hyperion/text/chat_template.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/text/chat_turns.h"
#include "hyperion/text/jinja_render.h"
#include "hyperion/text/unicode.h"

namespace hyperion::text {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxSource = size_t{4} << 20;
constexpr size_t kMaxMessage = 500;  // bytes of what a template, or a part of it, says in an error

void check_text(std::string_view text, const std::string& what) {
  if (valid_prefix(text) != text.size())
    throw base::ConfigError(base::format("{} is not UTF-8 (byte {})", what, valid_prefix(text)));
}

void check_strings(const nlohmann::ordered_json& value) {
  if (value.is_string()) check_text(value.get_ref<const std::string&>(), "a text of the chat");
  if (value.is_structured())
    for (const auto& each : value) check_strings(each);
}

std::string message_of(const jinja::Fault& fault) {
  const std::string text = fault.what();
  if (text.size() <= kMaxMessage) return text;
  size_t end = kMaxMessage;
  while ((text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

ordered_json parsed(const std::string& text) {
  try {
    return ordered_json::parse(text);
  } catch (const nlohmann::json::exception& error) {  // as a number beyond all bounds
    throw base::ConfigError(base::format("the chat cannot be read as JSON: {}", error.what()));
  }
}

ordered_json variables_of(const std::vector<ChatMessage>& messages, const std::string& bos_token,
                          const std::string& eos_token, const std::string& tools = {}) {
  auto list = ordered_json::array();
  for (const auto& each : messages)
    list.push_back(each.whole.empty() ? ordered_json{{"role", each.role}, {"content", each.content}}
                                      : parsed(each.whole));
  ordered_json all = {{"messages", std::move(list)}, {"bos_token", bos_token}, {"eos_token", eos_token}};
  if (!tools.empty()) all["tools"] = parsed(tools);
  return all;
}

bool says_something(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return false;
  return found->is_string() ? *found != "" : !found->is_structured() || !found->empty();
}

// By its name in the list that tokenizer_config.json may have; "default" also where it is no list.
std::optional<std::string> configured_template(base::FileSystem& files, const base::Path& folder,
                                               const std::string& name) {
  const auto path = folder / "tokenizer_config.json";
  if (!files.exists(path)) return std::nullopt;
  const auto config = base::parse_json(base::read_description(files, path), path.string());
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end() || found->is_null()) return std::nullopt;
  const bool is_default = name == "default";
  if (found->is_string()) return is_default ? std::optional(found->get<std::string>()) : std::nullopt;
  if (found->is_array())
    for (const auto& each : *found)
      if (each.is_object() && each.value("name", base::Json()) == name && each.contains("template") &&
          each["template"].is_string())
        return each["template"].get<std::string>();
  if (!is_default) return std::nullopt;
  throw base::CorruptError(
      base::format("{}: chat_template is neither a text nor a list with a \"default\"", path.string()));
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string place) : place_(std::move(place)) {
  if (source.size() > kMaxSource)
    throw base::CorruptError(
        base::format("{}: a chat template of {} is too large", place_, base::bytes_text(source.size())));
  if (valid_prefix(source) != source.size()) throw base::CorruptError(base::format("{} is not UTF-8", place_));
  try {
    tree_ = std::make_shared<const std::vector<jinja::Statement>>(jinja::parse(source));
  } catch (const jinja::Fault& fault) {
    throw base::CorruptError(base::format("{}:{}: in the chat template, {}", place_, fault.line, message_of(fault)));
  }
}

std::string ChatTemplate::run(const nlohmann::ordered_json& variables, int64_t now,
                              std::vector<ByteRange>* generated) const {
  if (!variables.is_object()) throw base::ConfigError("the variables of a chat template are not an object");
  check_strings(variables);
  auto all = variables;
  for (const char* name : {"tools", "documents"})
    if (!all.contains(name)) all[name] = nullptr;
  try {
    return jinja::render(*tree_, jinja::Value::of(all), now, generated);
  } catch (const jinja::Fault& fault) {
    if (fault.raised)
      throw base::ConfigError(base::format("the chat template refuses the messages: {}", message_of(fault)),
                              base::format("see {}:{}", place_, fault.line));
    throw base::CorruptError(base::format("{}:{}: in the chat template, {}", place_, fault.line, message_of(fault)));
  }
}

std::string ChatTemplate::render(const nlohmann::ordered_json& variables, int64_t now) const {
  return run(variables, now, nullptr);
}

std::string ChatTemplate::render(const nlohmann::ordered_json& variables) const {
  return render(variables, static_cast<int64_t>(std::time(nullptr)));
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, bool add_generation_prompt,
                                 const std::string& bos_token, const std::string& eos_token) const {
  auto variables = variables_of(messages, bos_token, eos_token);
  variables["add_generation_prompt"] = add_generation_prompt;
  return render(variables);
}

ChatTurns ChatTemplate::render_with_turns(const std::vector<ChatMessage>& messages, const std::string& bos_token,
                                          const std::string& eos_token, const std::string& tools) const {
  const auto variables = variables_of(messages, bos_token, eos_token, tools);
  const auto now = static_cast<int64_t>(std::time(nullptr));
  check_nothing_lost(variables, now);
  return render_with_turns(variables, now);
}

// A template that names such a member decides itself where it writes it. One that does not may still write messages
// whole: then the text is another without the member.
void ChatTemplate::check_nothing_lost(const ordered_json& variables, int64_t now) const {
  const auto check = [&](const std::string& of, const char* name, const ordered_json::json_pointer& place) {
    if (!says_something(variables.at(place), name) || jinja::names(*tree_, name)) return;
    try {
      auto without = variables;
      without.at(place).erase(name);
      if (run(variables, now, nullptr) != run(without, now, nullptr)) return;
    } catch (const base::Error&) {  // it cannot do without a text, for example
    }
    throw base::ConfigError(
        base::format("{} has \"{}\", which the chat template {} does not write", of, name, place_),
        base::format("name a template that does: prepare.chat_template = \"FILE\"; or take \"{}\" out of the data",
                     name));
  };
  check("the record", "tools", ordered_json::json_pointer(""));
  const ordered_json::json_pointer messages("/messages");
  for (size_t i = 0; i < variables["messages"].size(); ++i)
    for (const char* name : {"tool_calls", "function_call", "reasoning_content", "reasoning", "thinking"})
      check(base::format("message {}", i + 1), name, messages / i);
}

ChatTurns ChatTemplate::render_with_turns(const nlohmann::ordered_json& variables, int64_t now) const {
  if (!variables.is_object() || !variables.contains("messages") || !variables["messages"].is_array())
    throw base::ConfigError("the variables of a chat template have no list of messages");
  auto all = variables;
  all["add_generation_prompt"] = false;
  ChatTurns out;
  if (jinja::has_generation_blocks(*tree_)) {
    out.text = run(all, now, &out.said);
    return out;
  }
  out.text = run(all, now, nullptr);
  out.said = find_turns(all, out.text, place_, [&](const auto& changed) { return run(changed, now, nullptr); });
  return out;
}

std::optional<std::string> find_chat_template(base::FileSystem& files, const base::Path& folder) {
  if (const auto path = folder / "chat_template.jinja"; files.exists(path)) return base::read_description(files, path);
  return configured_template(files, folder, "default");
}

std::optional<std::string> find_tool_template(base::FileSystem& files, const base::Path& folder) {
  for (const char* name : kToolTemplates)
    if (const auto path = folder / name; files.exists(path)) return base::read_description(files, path);
  return configured_template(files, folder, "tool_use");
}

// A special token is written as a string, or as an object with its content.
std::string special_token(base::FileSystem& files, const base::Path& folder, const char* key) {
  const base::Path path = folder / "tokenizer_config.json";
  if (!files.exists(path)) return {};
  const auto json = base::parse_json(base::read_description(files, path), path.string());
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  return content != found->end() && content->is_string() ? content->get<std::string>() : std::string();
}

}  // namespace hyperion::text

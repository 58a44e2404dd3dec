// A model's chat template: messages become the text that the model was trained to answer, the same text as
// transformers' apply_chat_template. The template is the part of Jinja that such templates use; anything else is an
// error that names it and its line.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/text/byte_range.h"

namespace hyperion::text {

namespace jinja {
struct Statement;
}

struct ChatMessage {
  std::string role, content;
  std::string whole = {};  // the message as a JSON object, where it is more than a role and a text; else empty
};

struct ChatTurns {
  std::string text;
  std::vector<ByteRange> said;  // what the assistant says, end of turn included: in order, apart from each other
};

class ChatTemplate {
 public:
  // Throws CorruptError that names `place` and the line for what is not a template that is known here.
  ChatTemplate(std::string source, std::string place);

  // Throws ConfigError for messages that the template refuses, CorruptError for what it cannot do with them.
  std::string render(const std::vector<ChatMessage>& messages, bool add_generation_prompt,
                     const std::string& bos_token = {}, const std::string& eos_token = {}) const;

  // `variables`: an object with messages and what else the template reads; tools and documents are none unless given.
  // `now`: seconds since 1970 UTC, what strftime_now tells.
  std::string render(const nlohmann::ordered_json& variables, int64_t now) const;
  std::string render(const nlohmann::ordered_json& variables) const;  // now: the clock

  // The dialogue without a prompt for a further turn, and what a model of it should learn to say: what the template's
  // {% generation %} blocks write; where it has none, from the prompt for each turn of the assistant to the end of that
  // turn, found by rendering the dialogue up to there. A template that writes earlier turns otherwise once others
  // follow is understood where only what stands right before or after the words changes; else ConfigError.
  // `tools`: a JSON array, or empty. What a message calls, thinks or may call, and the template writes nowhere, is a
  // ConfigError: a model of the text would learn to stop where it stood.
  ChatTurns render_with_turns(const std::vector<ChatMessage>& messages, const std::string& bos_token = {},
                              const std::string& eos_token = {}, const std::string& tools = {}) const;
  ChatTurns render_with_turns(const nlohmann::ordered_json& variables, int64_t now) const;

 private:
  std::string run(const nlohmann::ordered_json& variables, int64_t now, std::vector<ByteRange>* generated) const;
  void check_nothing_lost(const nlohmann::ordered_json& variables, int64_t now) const;

  std::string place_;
  std::shared_ptr<const std::vector<jinja::Statement>> tree_;
};

// The template of a model's folder: chat_template.jinja, else chat_template of tokenizer_config.json, where a list has
// it under the name "default"; nothing where there is none.
std::optional<std::string> find_chat_template(base::FileSystem& files, const base::Path& folder);

// The one that is meant for dialogues with tools, where a folder has one apart: in a file, the second of which is how a
// prepared set keeps it, else "tool_use" of that list.
inline constexpr const char* kToolTemplates[] = {"additional_chat_templates/tool_use.jinja", "tool_use.jinja"};
std::optional<std::string> find_tool_template(base::FileSystem& files, const base::Path& folder);

// "bos_token" or "eos_token" of a folder's tokenizer_config.json; empty where it names none.
std::string special_token(base::FileSystem& files, const base::Path& folder, const char* key);

}  // namespace hyperion::text

#include "hyperion/serve/chat.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"

namespace hyperion::serve {
namespace {

data::ChatTemplate open_template(const base::Path& folder) {
  if (!folder.empty())
    if (auto source = data::find_chat_template(base::real_files(), folder))
      return data::ChatTemplate(std::move(*source), folder.string());
  throw base::ConfigError(
      "this model has no chat template",
      "use a folder with chat_template.jinja, or one whose tokenizer_config.json has one; `hyperion "
      "generate` continues plain text");
}

// A special token is written as a string, or as an object with its content.
std::string special_token(const base::Path& folder, const char* key) {
  auto& files = base::real_files();
  const base::Path path = folder / "tokenizer_config.json";
  if (!files.exists(path)) return {};
  const auto json = base::parse_json(files.read(path), path.string());
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_object() ? found->value("content", std::string()) : std::string();
}

}  // namespace

Chat::Chat(interop::OpenedModel& opened, at::Device device, GenerateOptions options, const std::string& system)
    : opened_(opened),
      device_(device),
      options_(std::move(options)),
      text_(opened),
      template_(open_template(opened.folder)),
      bos_(special_token(opened.folder, "bos_token")),
      eos_(special_token(opened.folder, "eos_token")) {
  if (!system.empty()) messages_.push_back({"system", system});
}

std::string Chat::answer(const std::string& said, const OnText& on_text) {
  messages_.push_back({"user", valid_utf8(said)});
  const std::string prompt = template_.render(messages_, /*add_generation_prompt=*/true, bos_, eos_);
  const auto tokens = text_.encode(prompt, /*special=*/false);
  auto answers = generate(opened_, device_, text_, {tokens}, options_, on_text);
  messages_.push_back({"assistant", valid_utf8(answers.front())});
  return answers.front();
}

}  // namespace hyperion::serve

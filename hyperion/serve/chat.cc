#include "hyperion/serve/chat.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::serve {
namespace {

text::ChatTemplate open_template(const base::Path& folder) {
  if (!folder.empty())
    if (auto source = text::find_chat_template(base::real_files(), folder))
      return text::ChatTemplate(std::move(*source), folder.string());
  throw base::ConfigError(
      "this model has no chat template",
      "use a folder with chat_template.jinja, or one whose tokenizer_config.json has one; `hyperion "
      "generate` continues plain text");
}

}  // namespace

Chat::Chat(interop::OpenedModel& opened, at::Device device, GenerateOptions options, const std::string& system)
    : opened_(opened),
      device_(device),
      options_(std::move(options)),
      text_(opened),
      template_(open_template(opened.folder)),
      bos_(text::special_token(base::real_files(), opened.folder, "bos_token")),
      eos_(text::special_token(base::real_files(), opened.folder, "eos_token")) {
  reset(system);
}

std::string Chat::answer(const std::string& said, const OnText& on_text) {
  auto messages = messages_;
  messages.push_back({"user", interop::valid_utf8(said)});
  const std::string prompt = template_.render(messages, /*add_generation_prompt=*/true, bos_, eos_);
  const auto tokens = text_.encode(prompt, /*special=*/false);
  const int64_t context = opened_.model->context();
  if (!messages_.empty() && messages_.back().role == "assistant" && static_cast<int64_t>(tokens.size()) >= context)
    throw base::ConfigError(base::format("the dialogue is full: with this question it has {} tokens, and the model's "
                                         "context is {}",
                                         tokens.size(), context),
                            "ask less, or begin anew: /reset on a terminal, else another `hyperion chat`");
  auto answers = generate(opened_, device_, text_, {tokens}, options_, on_text);
  messages.push_back({"assistant", interop::valid_utf8(answers.front())});
  messages_ = std::move(messages);
  return answers.front();
}

void Chat::reset() {
  messages_.clear();
  if (!system_.empty()) messages_.push_back({"system", system_});
}

void Chat::reset(const std::string& system) {
  system_ = interop::valid_utf8(system);
  reset();
}

}  // namespace hyperion::serve

// A dialogue with a model, in the words of its own chat template.
#pragma once
#include <string>
#include <vector>

#include "hyperion/serve/generate.h"
#include "hyperion/text/chat_template.h"

namespace hyperion::serve {

class Chat {
 public:
  // Throws ConfigError where the model's folder has no chat template. `system` may be empty: the template's own.
  Chat(interop::OpenedModel& opened, at::Device device, GenerateOptions options, const std::string& system);

  // The model's next turn; the dialogue remembers both. Where it throws, the dialogue is as it was before.
  std::string answer(const std::string& said, const OnText& on_text = nullptr);

  // Begins anew, with the same words of the system or with others.
  void reset();
  void reset(const std::string& system);

 private:
  interop::OpenedModel& opened_;
  at::Device device_;
  GenerateOptions options_;
  interop::Text text_;
  text::ChatTemplate template_;
  std::string bos_, eos_, system_;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace hyperion::serve

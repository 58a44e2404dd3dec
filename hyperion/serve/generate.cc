#include "hyperion/serve/generate.h"

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/signals.h"

namespace hyperion::serve {

std::string generate(interop::OpenedModel& opened, at::Device device, const std::string& prompt,
                     const models::DecodeOptions& options, const std::function<void(std::string_view)>& on_text) {
  if (!opened.bytes)
    throw base::ConfigError("this model's tokens are not bytes, and its tokenizer cannot be read here yet",
                            "`hyperion probe` runs it on token ids");
  models::Tokens tokens;
  for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  std::string text;
  models::decode(*opened.model, device, {tokens}, options, [&](size_t, int64_t token) {
    base::fault_point("serve.token");
    base::throw_if_stopped("generating");
    text += static_cast<char>(token);
    if (on_text) on_text(std::string_view(text).substr(text.size() - 1));
    return true;
  });
  return text;
}

}  // namespace hyperion::serve

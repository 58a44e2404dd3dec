// Text in, text out, from a model opened by name.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/interop/open_model.h"
#include "hyperion/interop/text.h"
#include "hyperion/models/decode.h"

namespace hyperion::serve {

struct GenerateOptions : models::DecodeOptions {
  std::vector<std::string> stop;  // a text ends once it has one of these in it, which stays in the result
};

// A piece of text `index`, as it comes; an empty one with `last` follows the last.
using OnText = std::function<void(size_t index, std::string_view piece, bool last)>;

// Continues prompts side by side. Returns the continuations, without the prompts and without the token that ended them.
std::vector<std::string> generate(interop::OpenedModel& opened, at::Device device,
                                  const std::vector<std::string>& prompts, const GenerateOptions& options,
                                  const OnText& on_text = nullptr);

// The same from tokens; `text` is the model's.
std::vector<std::string> generate(interop::OpenedModel& opened, at::Device device, const interop::Text& text,
                                  const std::vector<models::Tokens>& prompts, const GenerateOptions& options,
                                  const OnText& on_text = nullptr);

// Puts texts that grow side by side one after the other: the first that has not ended is handed on as it grows, the
// others wait for their turn.
class InTurn {
 public:
  InTurn(size_t count, OnText on_text) : texts_(count), on_text_(std::move(on_text)) {}
  void take(size_t index, std::string_view piece, bool last);

 private:
  struct Text {
    std::string waiting;
    bool ended = false;
  };
  std::vector<Text> texts_;
  OnText on_text_;
  size_t turn_ = 0;
};

}  // namespace hyperion::serve

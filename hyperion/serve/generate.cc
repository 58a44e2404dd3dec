#include "hyperion/serve/generate.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/signals.h"

namespace hyperion::serve {
namespace {

// Whether `text`, whose last `added` bytes are new, has come to one of the stop texts.
bool comes_to(const std::string& text, size_t added, const std::vector<std::string>& stops) {
  return std::any_of(stops.begin(), stops.end(), [&](const std::string& stop) {
    const size_t reach = added + stop.size() - 1;
    return text.find(stop, text.size() - std::min(reach, text.size())) != text.npos;
  });
}

}  // namespace

std::vector<std::string> generate(interop::OpenedModel& opened, at::Device device,
                                  const std::vector<std::string>& prompts, const GenerateOptions& options,
                                  const OnText& on_text) {
  const interop::Text text(opened);
  std::vector<models::Tokens> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(text.encode(prompt));
  return generate(opened, device, text, tokens, options, on_text);
}

std::vector<std::string> generate(interop::OpenedModel& opened, at::Device device, const interop::Text& text,
                                  const std::vector<models::Tokens>& prompts, const GenerateOptions& options,
                                  const OnText& on_text) {
  models::DecodeOptions decoding = options;
  const auto& ends = text.ends();
  decoding.stop_tokens.insert(decoding.stop_tokens.end(), ends.begin(), ends.end());
  std::vector<models::Tokens> said(prompts.size());
  std::vector<std::string> texts(prompts.size());
  const auto hand_on = [&](size_t index, const std::string& whole, size_t until) {
    std::string& known = texts[index];
    if (until <= known.size()) return;
    const std::string piece = whole.substr(known.size(), until - known.size());
    known = whole.substr(0, until);
    if (on_text) on_text(index, piece, false);
  };
  const auto on_token = [&](size_t index, int64_t token) {
    base::fault_point("serve.token");
    base::throw_if_stopped("generating");
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) return false;
    said[index].push_back(token);
    const size_t before = texts[index].size();
    const std::string whole = text.decode(said[index]);
    hand_on(index, whole, opened.bytes ? whole.size() : interop::whole_characters(whole));
    return !comes_to(texts[index], texts[index].size() - before, options.stop);
  };
  const auto on_end = [&](size_t index) {
    const std::string whole = text.decode(said[index]);
    hand_on(index, whole, whole.size());
    if (on_text) on_text(index, "", true);
  };
  models::decode(*opened.model, device, prompts, decoding, on_token, on_end);
  return texts;
}

void InTurn::take(size_t index, std::string_view piece, bool last) {
  texts_[index].ended = last;
  if (index != turn_) {
    texts_[index].waiting += piece;
    return;
  }
  on_text_(index, piece, last);
  while (turn_ < texts_.size() && texts_[turn_].ended && ++turn_ < texts_.size()) {
    const Text& next = texts_[turn_];
    if (!next.waiting.empty() || next.ended) on_text_(turn_, next.waiting, next.ended);
  }
}

}  // namespace hyperion::serve

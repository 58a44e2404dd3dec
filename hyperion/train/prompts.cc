#include "hyperion/train/prompts.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/signals.h"
#include "hyperion/data/prepared.h"
#include "hyperion/models/decode.h"
#include "hyperion/report/markup.h"

namespace hyperion::train {
namespace {

using base::format;

// Empty: the data's tokens are bytes.
base::Path tokenizer_of(base::FileSystem& files, const data::DataConfig& config) {
  if (config.source != data::SourceKind::prepared) return {};
  const base::Path folder = base::Path(config.path.front()) / data::kSetTokenizer;
  return files.exists(folder) ? folder : base::Path();
}

// On one line.
std::string quoted(const std::string& text) {
  constexpr size_t kMost = 100;  // characters
  std::string line;
  for (const char c : interop::valid_utf8(text)) line += c == '\n' ? "\\n" : c == '\t' ? " " : std::string(1, c);
  return "\"" + report::shortened(base::printable(line), kMost) + "\"";
}

}  // namespace

Prompts::Prompts(base::FileSystem& files, const RunConfig& config, const data::Split& split,
                 const strategy::ModelShape& shape)
    : config_(config.eval) {
  if (config_.prompts.empty()) return;
  const std::vector<int64_t> ends = split.questions.empty() ? std::vector<int64_t>() : std::vector<int64_t>{'\n'};
  text_.emplace(tokenizer_of(files, config.data), shape.vocabulary, ends);
  for (const auto& prompt : config_.prompts) {
    tokens_.push_back(text_->encode(prompt));
    const auto count = static_cast<int64_t>(tokens_.back().size());
    if (count == 0) throw base::ConfigError("eval.prompts holds an empty text", "give each at least one character");
    if (count >= shape.context)
      throw base::ConfigError(
          format("eval.prompts: {} has {} tokens, and the model's context is {}", quoted(prompt), count, shape.context),
          "give a shorter prompt");
  }
}

std::vector<report::Continuation> Prompts::ask(models::Model& model, at::Device device, bool stoppable) const {
  const base::OperationScope scope("continue_prompts");
  models::DecodeOptions options;
  options.new_tokens = config_.prompt_tokens;
  options.stop_tokens = text_->ends();
  auto said = models::decode(model, device, tokens_, options, [&](size_t, int64_t) {
    if (stoppable) base::throw_if_stopped("continuing prompts");
    return true;
  });
  std::vector<report::Continuation> samples;
  for (size_t i = 0; i < said.size(); ++i) {
    const auto& ends = text_->ends();
    if (!said[i].empty() && std::find(ends.begin(), ends.end(), said[i].back()) != ends.end()) said[i].pop_back();
    samples.push_back({config_.prompts[i], text_->decode(said[i])});
  }
  return samples;
}

std::string continuation_line(const report::Continuation& sample) {
  return format("{} -> {}", quoted(sample.prompt), quoted(sample.text));
}

}  // namespace hyperion::train

#include "hyperion/models/decode.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <limits>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/random.h"

namespace hyperion::models {
namespace {

// The token whose share of the line [0, 1) holds this row's random number.
int64_t draw(const float* probabilities, int64_t count, float number) {
  double reached = 0;
  int64_t last_possible = 0;
  for (int64_t token = 0; token < count; ++token) {
    if (probabilities[token] > 0) last_possible = token;
    reached += probabilities[token];
    if (number < reached) return token;
  }
  return last_possible;  // rounding left the sum a little under 1
}

Tokens choose(at::Tensor logits, const DecodeOptions& options, const std::vector<size_t>& rows, int64_t place) {
  logits = logits.to(at::kFloat);
  if (options.temperature == 0) {
    const auto best = at::argmax(logits, -1).to(at::kLong).to(at::kCPU);
    return {best.const_data_ptr<int64_t>(), best.const_data_ptr<int64_t>() + best.numel()};
  }
  if (options.top_k > 0 && options.top_k < logits.size(-1)) {
    const auto least = std::get<0>(at::topk(logits, options.top_k, -1)).narrow(-1, options.top_k - 1, 1);
    logits = logits.masked_fill(logits.lt(least), -std::numeric_limits<double>::infinity());
  }
  const auto probabilities = at::softmax(logits.div(options.temperature), -1).to(at::kCPU).contiguous();
  const auto key = base::stream_key(options.seed, "decode");
  Tokens tokens;
  for (size_t row = 0; row < rows.size(); ++row) {
    const float number = base::unit_float(base::random_bits(key, rows[row], static_cast<uint32_t>(place)));
    tokens.push_back(
        draw(probabilities.const_data_ptr<float>() + row * probabilities.size(-1), probabilities.size(-1), number));
  }
  return tokens;
}

// All rows have prompts of one length.
void decode_batch(LanguageModel& model, at::Device device, const std::vector<Tokens>& prompts,
                  const std::vector<size_t>& rows, const DecodeOptions& options,
                  const std::function<bool(size_t, int64_t)>& on_token, std::vector<Tokens>& out) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto length = static_cast<int64_t>(prompts[rows.front()].size());
  Tokens input;
  for (const size_t row : rows) input.insert(input.end(), prompts[row].begin(), prompts[row].end());
  nn::KeyValueCache cache;
  nn::Pass pass;
  pass.cache = &cache;
  std::vector<bool> ended(rows.size(), false);
  const int64_t most = std::min(options.new_tokens, model.context() - length);
  for (int64_t place = 0; place < most; ++place) {
    const auto ids =
        at::from_blob(input.data(), {count, static_cast<int64_t>(input.size()) / count}, at::kLong).to(device);
    const auto logits = model.logits(ids, pass).select(1, ids.size(1) - 1);
    input = choose(logits, options, rows, place);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (ended[i]) continue;
      out[rows[i]].push_back(input[i]);
      const bool go_on = !on_token || on_token(rows[i], input[i]);
      ended[i] = !go_on || input[i] == options.stop_token;
    }
    if (std::all_of(ended.begin(), ended.end(), [](bool end) { return end; })) return;
  }
}

}  // namespace

std::vector<Tokens> decode(LanguageModel& model, at::Device device, const std::vector<Tokens>& prompts,
                           const DecodeOptions& options, const std::function<bool(size_t, int64_t)>& on_token) {
  at::NoGradGuard no_grad;
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) throw base::ConfigError("the prompt is empty", "give at least one character");
    if (static_cast<int64_t>(prompts[i].size()) >= model.context())
      throw base::ConfigError(
          base::format("the prompt has {} tokens, and the model's context is {}", prompts[i].size(), model.context()),
          "give a shorter prompt");
    by_length[prompts[i].size()].push_back(i);
  }
  std::vector<Tokens> out(prompts.size());
  for (const auto& [length, rows] : by_length) decode_batch(model, device, prompts, rows, options, on_token, out);
  return out;
}

}  // namespace hyperion::models

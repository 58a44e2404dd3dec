#include "hyperion/models/decode.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/nn/key_value_cache.h"

namespace hyperion::models {
namespace {

// A cache's room is real memory on a GPU, and most texts end before their limit.
constexpr int64_t kMostExpected = 4096;

using OnToken = std::function<bool(size_t, int64_t)>;
using OnEnd = std::function<void(size_t)>;

// Some prompts that run side by side.
class Batch {
 public:
  Batch(Model& model, at::Device device, const std::vector<Tokens>& prompts, size_t first, size_t last,
        const DecodeOptions& options)
      : model_(model), device_(device), first_(first), options_(options) {
    for (size_t i = first; i < last; ++i) {
      prompts_.push_back(prompts[i]);
      longest_ = std::max(longest_, length(i - first));
      shortest_ = std::min(shortest_, length(i - first));
    }
  }

  void run(const OnToken& on_token, const OnEnd& on_end, std::vector<Tokens>& out) {
    const auto rows = static_cast<int64_t>(prompts_.size());
    const int64_t most = std::min(options_.new_tokens, model_.context() - shortest_);
    nn::KeyValueCache cache(std::min(longest_ + most, kMostExpected));
    std::vector<size_t> numbers;
    for (size_t row = 0; row < prompts_.size(); ++row) numbers.push_back(first_ + row);
    Sampler sampler(options_, prompts_, numbers);
    std::vector<bool> ended(prompts_.size(), false);
    auto [ids, mask, starts] = padded(longest_ + most);
    for (int64_t place = 0; place < most; ++place) {
      nn::Pass pass = pass_of(cache, mask, starts, ids.size(1));
      const auto tokens = sampler.next(model_.logits(ids, pass).select(1, -1), place);
      for (size_t row = 0; row < prompts_.size(); ++row) {
        if (ended[row]) continue;
        ended[row] = !take(row, tokens[row], on_token, out[first_ + row]);
        if (ended[row] && on_end) on_end(first_ + row);
      }
      if (std::all_of(ended.begin(), ended.end(), [](bool end) { return end; })) return;
      ids = at::tensor(tokens, at::kLong).view({rows, 1}).to(device_);
    }
  }

 private:
  struct Padded {
    at::Tensor ids;     // [rows, longest]
    at::Tensor mask;    // bool [rows, every token to come], false where a row is padding; undefined: none is, and
                        // attention is faster
    at::Tensor starts;  // int64 [rows, 1]: the column of a row's first token
  };

  int64_t length(size_t row) const { return static_cast<int64_t>(prompts_[row].size()); }

  Padded padded(int64_t columns) const {
    const auto rows = static_cast<int64_t>(prompts_.size());
    Tokens ids, starts;
    for (const Tokens& prompt : prompts_) {
      starts.push_back(longest_ - static_cast<int64_t>(prompt.size()));
      ids.insert(ids.end(), starts.back(), 0);
      ids.insert(ids.end(), prompt.begin(), prompt.end());
    }
    const auto begin = at::tensor(starts, at::kLong).view({rows, 1}).to(device_);
    const auto mask =
        longest_ == shortest_ ? at::Tensor() : at::arange(columns, begin.options()).unsqueeze(0).ge(begin);
    return {at::tensor(ids, at::kLong).view({rows, longest_}).to(device_), mask, begin};
  }

  nn::Pass pass_of(nn::KeyValueCache& cache, const at::Tensor& mask, const at::Tensor& starts, int64_t added) const {
    nn::Pass pass;
    pass.cache = &cache;
    pass.last_only = true;
    if (!mask.defined()) return pass;
    const int64_t seen = cache.length();
    pass.key_mask = mask.narrow(1, 0, seen + added);
    // Padding, and rows that have ended, stand at any position there is.
    pass.positions =
        at::arange(seen, seen + added, starts.options()).unsqueeze(0).sub(starts).clamp(0, model_.context() - 1);
    return pass;
  }

  // Whether the sequence goes on.
  bool take(size_t row, int64_t token, const OnToken& on_token, Tokens& out) {
    out.push_back(token);
    const bool wanted = !on_token || on_token(first_ + row, token);
    const auto& stops = options_.stop_tokens;
    return wanted && std::find(stops.begin(), stops.end(), token) == stops.end() &&
           static_cast<int64_t>(out.size()) < std::min(options_.new_tokens, model_.context() - length(row));
  }

  Model& model_;
  at::Device device_;
  size_t first_;
  const DecodeOptions& options_;
  std::vector<Tokens> prompts_;
  int64_t longest_ = 0, shortest_ = INT64_MAX;
};

void check_prompt(const Tokens& prompt, int64_t context) {
  if (prompt.empty()) throw base::ConfigError("the prompt is empty", "give at least one character");
  if (static_cast<int64_t>(prompt.size()) >= context)
    throw base::ConfigError(
        base::format("the prompt has {} tokens, and the model's context is {}", prompt.size(), context),
        "give a shorter prompt");
}

}  // namespace

std::vector<Tokens> decode(Model& model, at::Device device, const std::vector<Tokens>& prompts,
                           const DecodeOptions& options, const OnToken& on_token, const OnEnd& on_end) {
  at::NoGradGuard no_grad;
  check(options);
  if (model.input() != Input::tokens) throw base::ConfigError("this model takes images, and continues no text");
  for (const Tokens& prompt : prompts) check_prompt(prompt, model.context());
  std::vector<Tokens> out(prompts.size());
  const size_t step = std::max<size_t>(options.batch, 1);
  for (size_t first = 0; first < prompts.size(); first += step)
    Batch(model, device, prompts, first, std::min(first + step, prompts.size()), options).run(on_token, on_end, out);
  return out;
}

}  // namespace hyperion::models

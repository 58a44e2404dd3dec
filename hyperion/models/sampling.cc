#include "hyperion/models/sampling.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/random.h"

namespace hyperion::models {
namespace {

constexpr double kRuledOut = -std::numeric_limits<double>::infinity();

at::Tensor keep_top_p(const at::Tensor& scores, double top_p) {
  const auto [ascending, order] = at::sort(scores, -1);
  auto remove = at::softmax(ascending, -1).cumsum(-1).le(1 - top_p);
  remove.narrow(-1, remove.size(-1) - 1, 1).fill_(false);  // the likeliest always stays
  return scores.masked_fill(remove.scatter(-1, order, remove), kRuledOut);
}

// Scores over less would overflow: the likeliest has all of the probability long before.
bool is_greedy(double temperature) { return temperature < 1e-6; }

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

}  // namespace

void check(const SamplingOptions& options) {
  const auto expect = [](bool good, const char* what) {
    if (!good) throw base::ConfigError(what, "`hyperion generate --help` tells the ranges");
  };
  expect(options.temperature >= 0, "the temperature is below 0");
  expect(options.top_k >= 0, "top k is below 0");
  expect(options.top_p >= 0 && options.top_p <= 1, "top p is not in [0, 1]");
  expect(options.repetition_penalty > 0, "the repetition penalty is not above 0");
}

at::Tensor shaped_scores(const at::Tensor& logits, const at::Tensor& seen, const SamplingOptions& options) {
  at::Tensor scores = logits.to(at::kFloat);
  if (options.repetition_penalty != 1) {
    const double penalty = options.repetition_penalty;
    scores = at::where(seen, at::where(scores.lt(0), scores.mul(penalty), scores.div(penalty)), scores);
  }
  if (is_greedy(options.temperature)) return scores;
  if (options.temperature != 1) scores = scores.div(options.temperature);
  if (options.top_k > 0 && options.top_k < scores.size(-1)) {
    const auto least = std::get<0>(at::topk(scores, options.top_k, -1)).narrow(-1, options.top_k - 1, 1);
    scores = scores.masked_fill(scores.lt(least), kRuledOut);
  }
  return options.top_p < 1 ? keep_top_p(scores, options.top_p) : scores;
}

Sampler::Sampler(const SamplingOptions& options, std::vector<Tokens> texts, std::vector<size_t> numbers)
    : options_(options), texts_(std::move(texts)), numbers_(std::move(numbers)) {
  check(options);
}

void Sampler::note(const Tokens& tokens, const at::Tensor& logits) {
  if (options_.repetition_penalty == 1) return;
  if (!seen_.defined()) {
    seen_ = at::zeros(logits.sizes(), logits.options().dtype(at::kBool));
    for (size_t row = 0; row < texts_.size(); ++row)
      seen_[static_cast<int64_t>(row)].index_fill_(0, at::tensor(texts_[row], at::kLong).to(logits.device()), true);
    texts_.clear();
  }
  if (!tokens.empty()) seen_.scatter_(1, at::tensor(tokens, at::kLong).to(logits.device()).unsqueeze(1), true);
}

namespace {

// One number a row: not finite where a score is not, or where every token is ruled out.
void expect_finite(const at::Tensor& logits, int64_t place) {
  const auto highest = logits.amax(-1).to(at::kCPU, at::kFloat);
  const auto* values = highest.const_data_ptr<float>();
  for (int64_t row = 0; row < highest.numel(); ++row)
    if (!std::isfinite(values[row]))
      throw base::Error(
          base::format("the model's weights are not finite, or too large to compute with: its scores of new token {} "
                       "are {}",
                       place + 1, values[row]),
          "use an earlier checkpoint, or fetch the weights again; of fp16 weights a bf16 or fp32 copy may do");
}

}  // namespace

Tokens Sampler::next(const at::Tensor& logits, int64_t place) {
  expect_finite(logits, place);
  note({}, logits);
  const auto scores = shaped_scores(logits, seen_, options_);
  Tokens tokens;
  if (is_greedy(options_.temperature)) {
    const auto best = at::argmax(scores, -1).to(at::kCPU);
    tokens.assign(best.const_data_ptr<int64_t>(), best.const_data_ptr<int64_t>() + best.numel());
  } else {
    const auto probabilities = at::softmax(scores, -1).to(at::kCPU).contiguous();
    const int64_t vocabulary = probabilities.size(-1);
    const auto key = base::stream_key(options_.seed, "decode");
    for (size_t row = 0; row < numbers_.size(); ++row) {
      const float number = base::unit_float(base::random_bits(key, numbers_[row], static_cast<uint32_t>(place)));
      tokens.push_back(draw(probabilities.const_data_ptr<float>() + row * vocabulary, vocabulary, number));
    }
  }
  note(tokens, logits);
  return tokens;
}

}  // namespace hyperion::models

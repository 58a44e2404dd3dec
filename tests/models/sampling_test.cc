#include "hyperion/models/sampling.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "hyperion/base/error.h"

namespace hyperion::models {
namespace {

constexpr int64_t kVocabulary = 40;

// Word for word as the options are told, on one row of doubles: probabilities of what may be chosen.
std::vector<double> plain(std::vector<double> scores, const Tokens& text, const SamplingOptions& options) {
  for (size_t token = 0; token < scores.size(); ++token)
    if (std::find(text.begin(), text.end(), static_cast<int64_t>(token)) != text.end())
      scores[token] =
          scores[token] < 0 ? scores[token] * options.repetition_penalty : scores[token] / options.repetition_penalty;
  for (double& score : scores) score /= options.temperature;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (options.top_k > 0) order.resize(std::min<size_t>(order.size(), options.top_k));
  double sum = 0;
  for (const size_t token : order) sum += std::exp(scores[token]);
  double reached = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || reached < options.top_p))
    reached += std::exp(scores[order[kept++]]) / sum;
  std::vector<double> probabilities(scores.size(), 0);
  for (size_t i = 0; i < kept; ++i) probabilities[order[i]] = std::exp(scores[order[i]]) / sum / reached;
  return probabilities;
}

std::vector<SamplingOptions> several() {
  std::vector<SamplingOptions> list;
  for (const double temperature : {1.0, 0.7, 2.5})
    for (const int64_t top_k : {0, 5, 39, 1000})
      for (const double top_p : {1.0, 0.9, 0.3, 0.0})
        for (const double penalty : {1.0, 1.3, 0.8}) list.push_back({temperature, top_k, top_p, penalty, 1});
  return list;
}

TEST(Sampling, scores_are_those_of_the_plain_rules) {
  const Tokens text = {3, 8, 8, 21, 39};
  const auto logits = at::randn({1, kVocabulary}).mul(3);
  auto seen = at::zeros({1, kVocabulary}, at::kBool);
  for (const int64_t token : text) seen[0][token].fill_(true);
  const std::vector<double> row(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + kVocabulary);
  for (const SamplingOptions& options : several()) {
    const auto got = at::softmax(shaped_scores(logits, seen, options), -1);
    const auto expected = plain(row, text, options);
    for (int64_t token = 0; token < kVocabulary; ++token)
      EXPECT_NEAR(got.const_data_ptr<float>()[token], expected[token], 1e-5)
          << options.temperature << " " << options.top_k << " " << options.top_p << " " << options.repetition_penalty;
  }
}

TEST(Sampling, choices_follow_the_probabilities) {
  constexpr int kDraws = 40000;
  const auto logits = at::randn({1, kVocabulary}).mul(2);
  const SamplingOptions options = {0.9, 12, 0.95, 1.2, 7};
  const Tokens text = {1, 2, 3};
  const std::vector<double> row(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + kVocabulary);
  const auto expected = plain(row, text, options);
  std::map<int64_t, int> counts;
  std::vector<size_t> numbers(kDraws);
  std::iota(numbers.begin(), numbers.end(), 0);
  Sampler sampler(options, std::vector<Tokens>(kDraws, text), numbers);
  for (const int64_t token : sampler.next(logits.expand({kDraws, kVocabulary}), 5)) ++counts[token];
  for (int64_t token = 0; token < kVocabulary; ++token) {
    const double deviation = std::sqrt(kDraws * expected[token] * (1 - expected[token]));
    EXPECT_NEAR(counts[token], kDraws * expected[token], 5 * deviation) << token;
  }
}

TEST(Sampling, a_penalty_knows_the_prompt_and_what_was_chosen) {
  SamplingOptions options;
  options.repetition_penalty = 10;
  Sampler sampler(options, {{0}, {4}}, {0, 1});
  const auto logits = at::tensor({5.0f, 4.0f, 3.0f, 2.0f, -1.0f}).unsqueeze(0).expand({2, 5});
  const std::vector<Tokens> expected = {{1, 0}, {2, 1}, {3, 2}, {0, 3}};
  for (size_t place = 0; place < expected.size(); ++place)
    EXPECT_EQ(sampler.next(logits, static_cast<int64_t>(place)), expected[place]) << place;
}

TEST(Sampling, a_row_chooses_alike_whoever_is_beside_it) {
  const SamplingOptions options = {1.5, 0, 1, 1, 3};
  const auto logits = at::randn({3, kVocabulary});
  const auto together = Sampler(options, {{1}, {1}, {1}}, {0, 1, 2}).next(logits, 4);
  EXPECT_EQ(Sampler(options, {{1}}, {2}).next(logits.narrow(0, 2, 1), 4).front(), together[2]);
}

TEST(Sampling, refuses_options_out_of_range) {
  for (const SamplingOptions& options :
       {SamplingOptions{-1, 0, 1, 1, 1}, {1, -1, 1, 1, 1}, {1, 0, 1.1, 1, 1}, {1, 0, -0.1, 1, 1}, {1, 0, 1, 0, 1}})
    EXPECT_THROW(check(options), base::ConfigError);
  EXPECT_NO_THROW(check(SamplingOptions{}));
}

}  // namespace
}  // namespace hyperion::models

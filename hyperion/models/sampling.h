// The next token of each row, out of a model's scores.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hyperion::models {

using Tokens = std::vector<int64_t>;

struct SamplingOptions {
  double temperature = 0;         // 0: always the likeliest token
  int64_t top_k = 0;              // choose among the likeliest k; 0: among all
  double top_p = 1;               // and among the fewest likeliest that together reach this probability
  double repetition_penalty = 1;  // divides the scores of tokens already there; above 1 makes them rarer
  uint64_t seed = 1;
};

// Throws ConfigError on an option out of its range.
void check(const SamplingOptions& options);

// The scores after every option, in transformers' order: repetition penalty, temperature, top k, top p. A token ruled
// out has -infinity. logits: [rows, vocabulary] -> fp32. `seen`: bool of the same size, needed for a penalty. At
// temperature 0 only the penalty counts.
at::Tensor shaped_scores(const at::Tensor& logits, const at::Tensor& seen, const SamplingOptions& options);

// Chooses for rows of known texts, step after step.
class Sampler {
 public:
  // Row i is the sequence numbers[i], which names its random numbers: other rows beside it change nothing.
  Sampler(const SamplingOptions& options, std::vector<Tokens> texts, std::vector<size_t> numbers);

  // logits: [rows, vocabulary]; `place` counts the tokens chosen so far. Throws Error where scores are not finite.
  Tokens next(const at::Tensor& logits, int64_t place);

 private:
  void note(const Tokens& tokens, const at::Tensor& logits);

  SamplingOptions options_;
  std::vector<Tokens> texts_;  // emptied once noted
  std::vector<size_t> numbers_;
  at::Tensor seen_;
};

}  // namespace hyperion::models

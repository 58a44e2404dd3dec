// Continues token sequences with a language model, each token computed once through a cache.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "hyperion/models/language_model.h"

namespace hyperion::models {

struct DecodeOptions {
  int64_t new_tokens = 64;  // at most; also stops where the model's context is full
  double temperature = 0;   // 0: always the likeliest token
  int64_t top_k = 0;        // choose among the likeliest k; 0: among all
  uint64_t seed = 1;
  int64_t stop_token = -1;  // ends a sequence; kept in the result. -1: none
};

using Tokens = std::vector<int64_t>;

// The continuations, without the prompts. Prompts (none empty) of one length run as one batch. `on_token(sequence,
// token)` is called as each comes; returning false ends that sequence.
std::vector<Tokens> decode(LanguageModel& model, at::Device device, const std::vector<Tokens>& prompts,
                           const DecodeOptions& options,
                           const std::function<bool(size_t, int64_t)>& on_token = nullptr);

}  // namespace hyperion::models

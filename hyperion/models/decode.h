// Continues token sequences with a language model, each token computed once through a cache.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "hyperion/models/model.h"
#include "hyperion/models/sampling.h"

namespace hyperion::models {

struct DecodeOptions : SamplingOptions {
  int64_t new_tokens = 64;  // at most; a sequence also ends where the model's context is full
  Tokens stop_tokens;       // each ends a sequence, and is kept in the result
  size_t batch = 256;       // sequences at most that run side by side
};

// The continuations, without the prompts, of which none may be empty. Prompts of unequal length run as one batch,
// padded on the left: the padding is seen by no token, and each row counts its positions from its own first token.
// `on_token(sequence, token)` is called as each comes; returning false ends that sequence. `on_end(sequence)` follows
// its last token.
std::vector<Tokens> decode(Model& model, at::Device device, const std::vector<Tokens>& prompts,
                           const DecodeOptions& options, const std::function<bool(size_t, int64_t)>& on_token = nullptr,
                           const std::function<void(size_t)>& on_end = nullptr);

}  // namespace hyperion::models

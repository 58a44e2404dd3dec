// A dialogue as the tokens that a model is trained on, and which of them it learns to say.
#pragma once
#include <cstdint>

#include "hyperion/text/chat_template.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

struct MaskedTokens {
  std::vector<TokenId> ids;
  std::vector<uint8_t> loss_mask;  // 1: a part of it is what the assistant says; one for each id
};

// The template writes what stands around the text, so the tokenizer adds nothing to it.
MaskedTokens tokens_of_turns(const Tokenizer& tokenizer, const text::ChatTurns& turns);

}  // namespace hyperion::tokenizers

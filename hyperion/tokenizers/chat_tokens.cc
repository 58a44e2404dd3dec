#include "hyperion/tokenizers/chat_tokens.h"

namespace hyperion::tokenizers {

MaskedTokens tokens_of_turns(const Tokenizer& tokenizer, const text::ChatTurns& turns) {
  auto [ids, ranges] = tokenizer.encode_with_offsets(turns.text, false);
  MaskedTokens out{std::move(ids), std::vector<uint8_t>(ranges.size(), 0)};
  size_t turn = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    while (turn < turns.said.size() && turns.said[turn].end <= ranges[i].begin) ++turn;
    if (turn == turns.said.size()) break;
    out.loss_mask[i] = ranges[i].begin < ranges[i].end && ranges[i].end > turns.said[turn].begin;
  }
  return out;
}

}  // namespace hyperion::tokenizers

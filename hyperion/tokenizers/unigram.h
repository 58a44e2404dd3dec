// Unigram, as SentencePiece trains it: of all ways to cut a piece into tokens, the one whose scores add up highest.
#pragma once
#include <array>
#include <unordered_map>

#include "hyperion/tokenizers/token_model.h"

namespace hyperion::tokenizers {

class Unigram final : public TokenModel {
 public:
  struct Options {
    std::optional<TokenId> unknown;
    bool byte_fallback = false;  // "<0x41>" for what is unknown, where all its bytes have such tokens
  };
  // scores[id] is the logarithm of a token's frequency.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, Options options);

  // Throws CorruptError for an unknown character where there is no unknown token.
  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override;
  void encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const override;
  std::optional<TokenId> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  std::optional<std::string> token(TokenId id) const override;
  int64_t size() const override { return vocabulary_.size(); }

 private:
  void add_unknown(std::string_view piece, text::ByteRange range, std::vector<TokenId>& out,
                   std::vector<text::ByteRange>& ranges) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  Options options_;
  double unknown_score_;
  std::array<TokenId, 256> byte_tokens_;
  std::unordered_map<uint64_t, int32_t> next_;  // the tokens as a tree: (node, byte) to node
  std::vector<TokenId> token_at_{-1};           // by node; -1: no token ends there
};

}  // namespace hyperion::tokenizers

// BPE over characters, as SentencePiece trains it: a character that is no token falls back to its bytes, or is unknown.
#pragma once
#include <array>

#include "hyperion/tokenizers/merges.h"
#include "hyperion/tokenizers/token_model.h"

namespace hyperion::tokenizers {

class CharBpe final : public TokenModel {
 public:
  struct Options {
    std::optional<TokenId> unknown;  // without it an unknown character is dropped
    bool fuse_unknown = false;       // neighbours that are unknown are one token
    bool byte_fallback = false;      // "<0x41>" for what is unknown, where all its bytes have such tokens
    bool whole_pieces = false;       // a piece that is a token is that token
    std::string prefix, suffix;      // spelled before a character inside a piece, and after the last
  };
  CharBpe(Vocabulary vocabulary, MergeTable merges, Options options);

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override;
  void encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const override;
  std::optional<TokenId> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  std::optional<std::string> token(TokenId id) const override;
  int64_t size() const override { return vocabulary_.size(); }

 private:
  std::optional<TokenId> symbol(std::string_view piece, size_t at, size_t size) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  Options options_;
  std::array<TokenId, 256> byte_tokens_;  // -1: none
};

// The ids of "<0x00>" to "<0xFF>"; -1 where there is none.
std::array<TokenId, 256> byte_tokens_of(const Vocabulary& vocabulary);

}  // namespace hyperion::tokenizers

// WordPiece: of each word the longest token that fits, then the longest that continues it. And WordLevel: whole words
// only.
#pragma once
#include "hyperion/tokenizers/token_model.h"

namespace hyperion::tokenizers {

class WordPiece final : public TokenModel {
 public:
  struct Options {
    std::string prefix = "##";  // spelled before what continues a word
    size_t longest_word = 100;  // in characters; longer ones are unknown
    bool whole_words = false;   // WordLevel
    std::optional<TokenId> unknown;
  };
  WordPiece(Vocabulary vocabulary, Options options)
      : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {}

  // Throws CorruptError for an unknown word where there is no unknown token.
  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override;
  void encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const override;
  std::optional<TokenId> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  std::optional<std::string> token(TokenId id) const override;
  int64_t size() const override { return vocabulary_.size(); }

 private:
  bool encode_word(std::string_view word, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const;

  Vocabulary vocabulary_;
  Options options_;
};

}  // namespace hyperion::tokenizers

// Byte-level BPE: every byte is a token, and merges make longer ones of them.
#pragma once
#include <array>
#include <memory>
#include <mutex>

#include "hyperion/tokenizers/merges.h"
#include "hyperion/tokenizers/scanner.h"
#include "hyperion/tokenizers/token_model.h"

namespace hyperion::tokenizers {

class ByteBpe final : public TokenModel {
 public:
  struct Options {
    bool whole_pieces = false;       // a piece that is a token is that token, whatever the merges would make of it
    std::optional<TokenId> unknown;  // for a byte that is no token; without it such a byte is dropped
  };
  // `bytes`: the tokens as raw bytes. `others`: tokens that no merge makes and that are spelled as they are.
  ByteBpe(Vocabulary bytes, Vocabulary others, MergeTable merges, Options options);
  ~ByteBpe() override;

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override;
  void encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const override;
  // Cuts valid UTF-8 by the pattern and encodes the pieces; `last_piece`, where given, is told how many tokens the last
  // one has.
  void encode_text(Pattern pattern, std::string_view text, std::vector<TokenId>& out,
                   size_t* last_piece = nullptr) const;
  // The same by several threads, where the text is long enough and has places where it is cut in any case.
  void encode_text(Pattern pattern, std::string_view text, int threads, std::vector<TokenId>& out) const;
  // Of any bytes, as tiktoken: from the last piece before the first wrong byte on, all is one piece.
  void encode_bytes(Pattern pattern, std::string_view bytes, std::vector<TokenId>& out) const;

  std::optional<TokenId> id_of(std::string_view token) const override;
  std::optional<std::string> token(TokenId id) const override;
  int64_t size() const override { return std::max(bytes_.size(), others_.size()); }
  const std::string* bytes_of(TokenId id) const;
  // Whether every byte has a token: then the tokens of a text are its bytes, one after the other.
  bool loses_nothing() const;

 private:
  class Cache;
  class CacheLease;
  void encode_piece(const char* at, const char* end, const char* readable, Cache& cache,
                    std::vector<TokenId>& out) const;
  void encode_anew(std::string_view piece, std::vector<TokenId>& out,
                   std::vector<text::ByteRange>* ranges = nullptr) const;

  Vocabulary bytes_, others_;
  MergeTable merges_;
  Options options_;
  std::array<TokenId, 256> byte_;  // -1: no token
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Cache>> caches_;  // those that no thread uses now
};

// Merges from ranks alone: a pair merges when its bytes are a token, whose id is the rank. Throws CorruptError when a
// byte has no token.
MergeTable merges_of_ranks(const Vocabulary& bytes, const std::string& place);

}  // namespace hyperion::tokenizers

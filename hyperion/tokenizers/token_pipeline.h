// A tokenizer made of the stages that tokenizer.json names: added tokens, normalizer, pre-tokenizer, model,
// post-processor, decoder.
#pragma once
#include "hyperion/tokenizers/added_tokens.h"
#include "hyperion/tokenizers/byte_bpe.h"
#include "hyperion/tokenizers/normalizers.h"
#include "hyperion/tokenizers/post_processors.h"
#include "hyperion/tokenizers/pre_tokenizers.h"
#include "hyperion/tokenizers/token_decoders.h"
#include "hyperion/tokenizers/token_model.h"

namespace hyperion::tokenizers {

struct TokenStages {
  std::vector<AddedToken> added;
  Normalizer normalizer;       // empty: none
  PreTokenizer pre_tokenizer;  // no steps: a text is one piece
  std::unique_ptr<const TokenModel> model;
  Surround surround;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  TokenDecoder decoder;  // empty: tokens with spaces between them
  bool byte_level_decoder = false;
};

class TokenPipeline final : public Tokenizer {
 public:
  explicit TokenPipeline(TokenStages stages);
  std::vector<TokenId> encode(std::string_view text, bool special, int threads) const override;
  Encoded encode_with_offsets(std::string_view text, bool special) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  Decoded decode_with_starts(std::span<const TokenId> ids) const override;
  int64_t vocabulary_size() const override { return size_; }
  std::optional<std::string> token(TokenId id) const override;
  std::optional<TokenId> id_of(std::string_view token) const override;
  const std::vector<AddedToken>& added_tokens() const override { return stages_.added; }

 private:
  // Where ids go, and by how many threads; `traced`: with their ranges.
  struct Out {
    std::vector<TokenId> ids;
    std::vector<text::ByteRange> ranges;
    int threads = 1;
    bool traced = false;

    void add(TokenId id, text::ByteRange range) {
      ids.push_back(id);
      if (traced) ranges.push_back(range);
    }
  };
  // A stretch of the text, or of what the normalizer made of it.
  struct Stretch {
    std::string_view text;
    size_t at;                               // where it begins there
    const TracedText* normalized = nullptr;  // null: of the text itself

    text::ByteRange origin(size_t begin, size_t end) const {
      return normalized != nullptr ? normalized->origin(at + begin, at + end) : text::ByteRange{at + begin, at + end};
    }
  };
  Out encode_all(std::string_view text, bool special, int threads, bool traced) const;
  void encode_bytes(std::string_view text, size_t valid, Out& out) const;
  void encode_parts(std::span<const AddedTokenFinder::Part> parts, const char* start, Out& out) const;
  void encode_part(std::string_view text, size_t at, Out& out) const;
  void encode_plain(const Stretch& stretch, Out& out) const;
  void encode_pieces(TracedText text, Out& out) const;
  // Ranges of the ids that have none yet, where they stand for bytes one after the other.
  void trace_bytes(const Stretch& stretch, Out& out) const;
  void surround(bool special, Out& out) const;
  std::vector<Spelled> spelled(std::span<const TokenId> ids, bool skip_special) const;
  const AddedToken* added(TokenId id) const;  // null: the id is the model's

  TokenStages stages_;
  const ByteBpe* byte_bpe_;  // the model, where it is one behind a byte-level pre-tokenizer; else null
  AddedTokenFinder in_raw_, in_normalized_;
  std::vector<int32_t> added_at_;     // by id: its place in stages_.added; -1: the id is the model's
  std::vector<std::string> spelled_;  // added tokens as they are looked for: normalized where they say so
  int64_t size_;
};

}  // namespace hyperion::tokenizers

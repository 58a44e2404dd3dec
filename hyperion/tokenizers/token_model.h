// What turns the pieces of a text into ids, once it is normalized and cut: BPE, Unigram, WordPiece or WordLevel.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

constexpr TokenId kIdLimit = 1 << 22;  // tables by id are made as long as the highest says

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Tokens by id and ids by token.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;  // never copied: tokens_ points into ids_
  Vocabulary& operator=(Vocabulary&&) = default;
  // Throws CorruptError for an id out of range, or of another token.
  void add(std::string token, int64_t id);
  std::optional<TokenId> id_of(std::string_view token) const;
  const std::string* token(TokenId id) const;                            // null: no token has this id
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }  // the highest id and one
  size_t count() const { return ids_.size(); }

 private:
  std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // keys of ids_, which stay where they are
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const = 0;
  // Of one piece, and which of its bytes each token stands for.
  virtual void encode(std::string_view piece, std::vector<TokenId>& out,
                      std::vector<text::ByteRange>& ranges) const = 0;
  virtual std::optional<TokenId> id_of(std::string_view token) const = 0;
  virtual std::optional<std::string> token(TokenId id) const = 0;
  virtual int64_t size() const = 0;  // the highest id and one
};

}  // namespace hyperion::tokenizers

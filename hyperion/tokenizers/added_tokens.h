// Finds added tokens in a text: leftmost first, of those that start at one place the longest.
#pragma once
#include <array>
#include <unordered_map>

#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

class AddedTokenFinder {
 public:
  // `text` is what is looked for: the token's own, or that normalized.
  void add(std::string_view text, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  struct Part {
    std::string_view text;
    TokenId id = -1;  // -1: ordinary text
  };
  // The whole text in parts, in order, none empty. The text is valid UTF-8.
  std::vector<Part> split(std::string_view text) const;

 private:
  struct Node {
    std::unordered_map<char, int32_t> next;
    int32_t token = -1;
  };
  struct Match {
    size_t start, end;
    const AddedToken* token;
  };
  size_t next_candidate(std::string_view text, size_t from) const;
  std::optional<Match> longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_{};
};

}  // namespace hyperion::tokenizers

// SentencePiece's "precompiled_charsmap": replacements of characters, kept in a double-array trie. Used as `tokenizers`
// uses it: clusters of a character and its marks first, of at most 5 bytes, then characters; the shortest replacement
// that fits the start of either is taken for all of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/tokenizers/traced_text.h"

namespace hyperion::tokenizers {

class Charsmap {
 public:
  // `bytes`: the size of the trie in bytes, the trie as numbers of 4 bytes, and texts that each end with a zero byte.
  // Throws CorruptError that names `place`.
  Charsmap(std::string_view bytes, std::string place);

  // Throws CorruptError where a look-up leads out of the trie or the texts.
  TracedText apply(const TracedText& text) const;
  // What the shortest key that `text` begins with is replaced by.
  std::optional<std::string_view> replacement(std::string_view text) const;

 private:
  uint32_t unit(size_t at) const;
  [[noreturn]] void damaged(const char* what) const;

  std::vector<uint32_t> units_;
  std::string texts_;
  std::string place_;
};

}  // namespace hyperion::tokenizers

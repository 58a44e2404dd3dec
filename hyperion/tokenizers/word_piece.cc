#include "hyperion/tokenizers/word_piece.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::tokenizers {

// False where the word is unknown; `out` may then hold a part of it.
bool WordPiece::encode_word(std::string_view word, std::vector<TokenId>& out,
                            std::vector<text::ByteRange>& ranges) const {
  if (options_.whole_words) {
    const auto id = vocabulary_.id_of(word);
    if (id) out.push_back(*id);
    if (id) ranges.push_back({0, word.size()});
    return id.has_value();
  }
  const auto is_first = [](char byte) { return (byte & 0xC0) != 0x80; };
  if (static_cast<size_t>(std::count_if(word.begin(), word.end(), is_first)) > options_.longest_word) return false;
  for (size_t start = 0; start < word.size();) {
    std::optional<TokenId> found;
    size_t end = word.size();
    std::string candidate = start > 0 ? options_.prefix : "";
    const size_t prefix = candidate.size();
    candidate += word.substr(start);
    while (end > start && !found) {
      found = vocabulary_.id_of(std::string_view(candidate).substr(0, prefix + end - start));
      if (found) break;
      do --end;
      while (end > start && !is_first(word[end]));
    }
    if (!found) return false;
    out.push_back(*found);
    ranges.push_back({start, end});
    start = end;
  }
  return true;
}

void WordPiece::encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const {
  const size_t first = out.size(), first_range = ranges.size();
  if (encode_word(piece, out, ranges)) return;
  if (!options_.unknown)
    throw base::CorruptError(base::format("\"{}\" is unknown, and the tokenizer has no token for what is", piece),
                             "add an unk_token to it, or use another");
  out.resize(first);
  ranges.resize(first_range);
  out.push_back(*options_.unknown);
  ranges.push_back({0, piece.size()});
}

void WordPiece::encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const {
  std::vector<text::ByteRange> ignored;
  for (const auto piece : pieces) {
    ignored.clear();
    encode(piece, out, ignored);
  }
}

std::optional<std::string> WordPiece::token(TokenId id) const {
  const auto* token = vocabulary_.token(id);
  return token != nullptr ? std::optional(*token) : std::nullopt;
}

}  // namespace hyperion::tokenizers

#include "hyperion/tokenizers/char_bpe.h"

#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/text/unicode.h"

namespace hyperion::tokenizers {

std::array<TokenId, 256> byte_tokens_of(const Vocabulary& vocabulary) {
  std::array<TokenId, 256> out;
  for (int value = 0; value < 256; ++value)
    out[value] = vocabulary.id_of(base::format("<0x{:02X}>", value)).value_or(-1);
  return out;
}

CharBpe::CharBpe(Vocabulary vocabulary, MergeTable merges, Options options)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(std::move(options)),
      byte_tokens_(byte_tokens_of(vocabulary_)) {}

std::optional<TokenId> CharBpe::symbol(std::string_view piece, size_t at, size_t size) const {
  const bool inside = at > 0, last = at + size == piece.size();
  if ((!inside || options_.prefix.empty()) && (!last || options_.suffix.empty()))
    return vocabulary_.id_of(piece.substr(at, size));
  std::string spelled(piece.substr(at, size));
  if (inside) spelled.insert(0, options_.prefix);
  if (last) spelled += options_.suffix;
  return vocabulary_.id_of(spelled);
}

void CharBpe::encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const {
  const size_t first = out.size(), first_range = ranges.size();
  const auto add = [&](TokenId id, size_t begin, size_t end) {
    out.push_back(id);
    ranges.push_back({begin, end});
  };
  if (options_.whole_pieces)
    if (const auto id = vocabulary_.id_of(piece)) return add(*id, 0, piece.size());
  bool after_unknown = false;
  for (size_t at = 0; at < piece.size();) {
    const size_t size = text::char_size(piece[at]);
    const auto bytes = piece.substr(at, size);
    const auto has_token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)] >= 0; };
    bool unknown = false;
    if (const auto id = symbol(piece, at, size)) {
      add(*id, at, at + size);
    } else if (options_.byte_fallback && std::all_of(bytes.begin(), bytes.end(), has_token)) {
      for (size_t i = 0; i < size; ++i) add(byte_tokens_[static_cast<unsigned char>(bytes[i])], at + i, at + i + 1);
    } else if (options_.unknown) {
      unknown = true;
      if (after_unknown && options_.fuse_unknown)
        ranges.back().end = at + size;
      else
        add(*options_.unknown, at, at + size);
    }
    after_unknown = unknown;
    at += size;
  }
  const size_t left = merges_.merge(std::span(out).subspan(first), ranges.data() + first_range);
  out.resize(first + left);
  ranges.resize(first_range + left);
}

void CharBpe::encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const {
  std::vector<text::ByteRange> ignored;
  for (const auto piece : pieces) {
    ignored.clear();
    encode(piece, out, ignored);
  }
}

std::optional<std::string> CharBpe::token(TokenId id) const {
  const auto* token = vocabulary_.token(id);
  return token != nullptr ? std::optional(*token) : std::nullopt;
}

}  // namespace hyperion::tokenizers

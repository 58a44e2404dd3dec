#include "hyperion/tokenizers/unigram.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/text/unicode.h"
#include "hyperion/tokenizers/char_bpe.h"

namespace hyperion::tokenizers {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least likely token
uint64_t step(int32_t node, char byte) { return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(byte); }

struct Best {
  double score = 0;
  size_t start = 0;
  TokenId id = -1;  // -1: unknown
  bool reached = false;

  void offer(double other, size_t from, TokenId token) {
    if (reached && other <= score) return;
    *this = {other, from, token, true};
  }
};

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, Options options)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      options_(options),
      unknown_score_(scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty),
      byte_tokens_(byte_tokens_of(vocabulary_)) {
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const auto* token = vocabulary_.token(id);
    if (token == nullptr || token->empty()) continue;
    int32_t node = 0;
    for (const char byte : *token) {
      const auto [place, fresh] = next_.try_emplace(step(node, byte), static_cast<int32_t>(token_at_.size()));
      if (fresh) token_at_.push_back(-1);
      node = place->second;
    }
    token_at_[node] = id;
  }
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const {
  std::vector<Best> best(piece.size() + 1);
  for (size_t at = 0; at < piece.size();) {
    const double so_far = best[at].score;
    const size_t size = text::char_size(piece[at]);
    bool has_char = false;
    int32_t node = 0;
    for (size_t end = at; end < piece.size();) {
      const auto found = next_.find(step(node, piece[end++]));
      if (found == next_.end()) break;
      node = found->second;
      const TokenId id = token_at_[node];
      if (id < 0) continue;
      best[end].offer(so_far + scores_[id], at, id);
      has_char |= end == at + size;
    }
    if (!has_char) best[at + size].offer(so_far + unknown_score_, at, options_.unknown.value_or(-1));
    at += size;
  }
  struct Cut {
    text::ByteRange range;
    TokenId id;
  };
  std::vector<Cut> cuts;
  const TokenId unknown = options_.unknown.value_or(-1);
  for (size_t end = piece.size(); end > 0; end = best[end].start) {
    // Neighbours that are unknown become one.
    if (best[end].id == unknown && !cuts.empty() && cuts.back().id == unknown)
      cuts.back().range.begin = best[end].start;
    else
      cuts.push_back({{best[end].start, end}, best[end].id});
  }
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    if (cut->id == unknown) {
      add_unknown(piece, cut->range, out, ranges);
      continue;
    }
    out.push_back(cut->id);
    ranges.push_back(cut->range);
  }
}

void Unigram::add_unknown(std::string_view piece, text::ByteRange range, std::vector<TokenId>& out,
                          std::vector<text::ByteRange>& ranges) const {
  const auto text = piece.substr(range.begin, range.end - range.begin);
  const auto add = [&](TokenId id, text::ByteRange from) {
    out.push_back(id);
    ranges.push_back(from);
  };
  if (const auto id = vocabulary_.id_of(text)) return add(*id, range);
  const auto has_token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)] >= 0; };
  if (options_.byte_fallback && std::all_of(text.begin(), text.end(), has_token)) {
    for (size_t at = range.begin; at < range.end; ++at)
      add(byte_tokens_[static_cast<unsigned char>(piece[at])], {at, at + 1});
    return;
  }
  if (!options_.unknown)
    throw base::CorruptError(
        base::format("\"{}\" is in no token, and the tokenizer has none for what is unknown", text),
        "use a text in its alphabet, or another tokenizer");
  add(*options_.unknown, range);
}

void Unigram::encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const {
  std::vector<text::ByteRange> ignored;
  for (const auto piece : pieces) {
    ignored.clear();
    encode(piece, out, ignored);
  }
}

std::optional<std::string> Unigram::token(TokenId id) const {
  const auto* token = vocabulary_.token(id);
  return token != nullptr ? std::optional(*token) : std::nullopt;
}

}  // namespace hyperion::tokenizers

#include "hyperion/tokenizers/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/text/base64.h"
#include "hyperion/tokenizers/byte_alphabet.h"
#include "hyperion/tokenizers/char_bpe.h"
#include "hyperion/tokenizers/normal_forms.h"

namespace hyperion::tokenizers {
namespace {

using base::CorruptError;
using base::format;
using base::Json;

// Calls `use(line, number)` for each line, without its end.
template <class Use>
void each_line(std::string_view text, Use use) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void add_merges(const std::vector<std::pair<std::string, std::string>>& merges, const std::string& prefix,
                const std::string& place, const std::function<std::optional<TokenId>(std::string_view)>& id_of,
                MergeTable& table) {
  int32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const bool inside = !prefix.empty() && right.starts_with(prefix);
    const auto whole = id_of(left + (inside ? right.substr(prefix.size()) : right));
    const auto first = id_of(left), second = id_of(right);
    if (!first || !second || !whole)
      throw CorruptError(
          format("{}: the merge of \"{}\" and \"{}\" needs a token that is not in the vocabulary", place, left, right),
          "the vocabulary and the merges must be of one tokenizer");
    table.add(*first, *second, {rank++, *whole});
  }
}

}  // namespace

std::unique_ptr<const TokenModel> make_bpe(BpeParts parts, bool byte_level, const std::string& place) {
  MergeTable table(parts.merges.size());
  Vocabulary bytes, others;
  std::optional<TokenId> unknown;
  for (auto& [token, id] : parts.vocabulary) {
    if (parts.unknown == token) unknown = static_cast<TokenId>(id);
    auto raw = byte_level ? unspell_bytes(token) : std::nullopt;
    if (raw)
      bytes.add(std::move(*raw), id);
    else
      others.add(std::move(token), id);
    if (bytes.token(static_cast<TokenId>(id)) != nullptr && others.token(static_cast<TokenId>(id)) != nullptr)
      throw CorruptError(format("{}: two tokens have the id {}", place, id),
                         "each token of a vocabulary has an id of its own");
  }
  if (!byte_level) {
    add_merges(
        parts.merges, parts.prefix, place, [&](std::string_view token) { return others.id_of(token); }, table);
    return std::make_unique<CharBpe>(std::move(others), std::move(table),
                                     CharBpe::Options{unknown, parts.fuse_unknown, parts.byte_fallback,
                                                      parts.whole_pieces, parts.prefix, parts.suffix});
  }
  const auto id_of = [&](std::string_view token) {
    const auto raw = unspell_bytes(token);
    return raw ? bytes.id_of(*raw) : std::nullopt;
  };
  add_merges(parts.merges, parts.prefix, place, id_of, table);
  return std::make_unique<ByteBpe>(std::move(bytes), std::move(others), std::move(table),
                                   ByteBpe::Options{parts.whole_pieces, unknown});
}

std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& place) {
  const size_t space = line.find(' ');
  if (space == 0 || space == line.npos || space + 1 == line.size())
    throw CorruptError(format("{}: the merge \"{}\" is not two tokens with a space between them", place, line));
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

TokenStages stages_of_vocabulary(const Json& vocabulary, std::string_view merges, const Json& config,
                                 const std::string& place) {
  BpeParts parts;
  for (const auto& [token, id] : vocabulary.items()) parts.vocabulary.emplace_back(token, id.get<int64_t>());
  each_line(merges, [&](std::string_view line, size_t number) {
    if (!line.empty() && !(number == 1 && line.starts_with("#version")))
      parts.merges.push_back(split_merge(line, place));
  });
  const auto kind =
      config.is_object() ? config.value("tokenizer_class", std::string("GPT2Tokenizer")) : "GPT2Tokenizer";
  const bool qwen = kind.starts_with("Qwen2Tokenizer");
  if (!qwen && !kind.starts_with("GPT2Tokenizer"))
    throw CorruptError(format("{}: vocab.json and merges.txt of a {} are not known here", place, kind),
                       "save it with its tokenizer.json, which says how text is cut");
  TokenStages out;
  if (config.is_object() && config.contains("added_tokens_decoder")) {
    for (const auto& [key, token] : config.at("added_tokens_decoder").items()) {
      int64_t id = -1;
      std::from_chars(key.data(), key.data() + key.size(), id);
      out.added.push_back(read_added(token, id));
    }
  } else if (const auto end = vocabulary.find("<|endoftext|>"); end != vocabulary.end()) {
    out.added.push_back({end->get<TokenId>(), "<|endoftext|>", true, false, false, false, false});
  }
  if (qwen) out.normalizer = [](const TracedText& text) { return normalized(text, NormalForm::kNfc); };
  out.pre_tokenizer.byte_level = true;
  out.pre_tokenizer.scanner = qwen ? Pattern::kQwen2 : Pattern::kGpt2;
  out.pre_tokenizer.prefix_space = config.is_object() && config.value("add_prefix_space", false);
  out.model = make_bpe(std::move(parts), true, place);
  out.decoder = make_decoder(Json{{"type", "ByteLevel"}}, place);
  out.byte_level_decoder = true;
  return out;
}

size_t count_ranks(std::string_view text) {
  size_t count = 0;
  each_line(text, [&](std::string_view line, size_t) { count += !line.empty(); });
  return count;
}

TokenStages stages_of_ranks(std::string_view text, Pattern pattern, const std::string& place) {
  Vocabulary bytes;
  each_line(text, [&](std::string_view line, size_t number) {
    if (line.empty()) return;
    const size_t space = std::min(line.find(' '), line.size());
    const auto token = text::from_base64(line.substr(0, space));
    const auto digits = line.substr(std::min(space + 1, line.size()));
    TokenId rank = -1;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!token || token->empty() || failure != std::errc() || end != digits.data() + digits.size() || rank < 0)
      throw CorruptError(format("{}:{}: this is not a token in base64, a space and its rank", place, number));
    if (bytes.id_of(*token) || bytes.token(rank) != nullptr)
      throw CorruptError(format("{}:{}: this token or this rank is there twice", place, number));
    bytes.add(*token, rank);
  });
  TokenStages out;
  out.pre_tokenizer.byte_level = true;
  out.pre_tokenizer.scanner = pattern;
  auto merges = merges_of_ranks(bytes, place);
  out.model = std::make_unique<ByteBpe>(std::move(bytes), Vocabulary(), std::move(merges), ByteBpe::Options{true, {}});
  out.decoder = make_decoder(Json{{"type", "ByteLevel"}}, place);
  out.byte_level_decoder = true;
  return out;
}

}  // namespace hyperion::tokenizers

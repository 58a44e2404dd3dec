#include "hyperion/data/token_pipeline.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/byte_alphabet.h"

namespace hyperion::data {

TokenPipeline::TokenPipeline(TokenStages stages)
    : stages_(std::move(stages)),
      byte_bpe_(stages_.pre_tokenizer.byte_level ? dynamic_cast<const ByteBpe*>(stages_.model.get()) : nullptr),
      size_(stages_.model->size()) {
  std::sort(stages_.added.begin(), stages_.added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const auto& token : stages_.added) size_ = std::max<int64_t>(size_, token.id + 1);
  added_at_.assign(size_, -1);
  for (const auto& token : stages_.added) {
    added_at_[token.id] = static_cast<int32_t>(spelled_.size());
    spelled_.push_back(token.normalized && stages_.normalizer ? stages_.normalizer(token.text) : token.text);
    (token.normalized ? in_normalized_ : in_raw_).add(spelled_.back(), token);
  }
}

void TokenPipeline::encode_plain(std::string_view text, bool at_start, Out& out) const {
  if (text.empty()) return;
  const auto& pre = stages_.pre_tokenizer;
  if (byte_bpe_ != nullptr && pre.scanner) {
    if (pre.prefix_space && text.front() != ' ')
      return byte_bpe_->encode_text(*pre.scanner, " " + std::string(text), out.threads, out.ids);
    return byte_bpe_->encode_text(*pre.scanner, text, out.threads, out.ids);
  }
  std::vector<std::string> pieces{std::string(text)};
  for (const auto& step : pre.steps) pieces = step(std::move(pieces), at_start);
  std::vector<std::string_view> views;
  for (const auto& piece : pieces)
    if (!piece.empty()) views.emplace_back(piece);
  stages_.model->encode(views, out.ids);
}

// Text between tokens that are looked for before it is normalized.
void TokenPipeline::encode_part(std::string_view text, bool at_start, Out& out) const {
  std::string changed;
  if (stages_.normalizer) text = changed = stages_.normalizer(std::string(text));
  if (in_normalized_.empty()) return encode_plain(text, at_start, out);
  for (const auto& part : in_normalized_.split(text)) {
    if (part.id >= 0)
      out.ids.push_back(part.id);
    else
      encode_plain(part.text, at_start && part.text.data() == text.data(), out);
  }
}

// `valid` bytes of the text are UTF-8. Added tokens are found in them; what follows the last is encoded as bytes, not
// normalized.
void TokenPipeline::encode_bytes(std::string_view text, size_t valid, Out& out) const {
  if (byte_bpe_ == nullptr || !stages_.pre_tokenizer.scanner)
    throw base::CorruptError(base::format("the text is not UTF-8 from byte {} on", valid),
                             "this tokenizer has no tokens for single bytes; give it UTF-8");
  auto parts = in_raw_.split(text.substr(0, valid));
  if (!parts.empty() && parts.back().id < 0) {
    valid = static_cast<size_t>(parts.back().text.data() - text.data());
    parts.pop_back();
  }
  encode_parts(parts, text.data(), out);
  byte_bpe_->encode_bytes(*stages_.pre_tokenizer.scanner, text.substr(valid), out.ids);
}

void TokenPipeline::encode_parts(std::span<const AddedTokenFinder::Part> parts, const char* start, Out& out) const {
  for (const auto& part : parts) {
    if (part.id >= 0)
      out.ids.push_back(part.id);
    else
      encode_part(part.text, part.text.data() == start, out);
  }
}

std::vector<TokenId> TokenPipeline::encode(std::string_view text, bool special, int threads) const {
  Out out{{}, threads};
  out.ids.reserve(text.size() / 3 + 16);
  const size_t valid = valid_prefix(text);
  if (valid != text.size())
    encode_bytes(text, valid, out);
  else if (in_raw_.empty())
    encode_part(text, true, out);
  else
    encode_parts(in_raw_.split(text), text.data(), out);
  auto& ids = out.ids;
  const auto& around = stages_.surround;
  if (stages_.truncation) truncate(ids, *stages_.truncation, special ? around.before.size() + around.after.size() : 0);
  if (special) {
    ids.insert(ids.begin(), around.before.begin(), around.before.end());
    ids.insert(ids.end(), around.after.begin(), around.after.end());
  }
  if (stages_.padding) pad(ids, *stages_.padding);
  return std::move(ids);
}

const AddedToken* TokenPipeline::added(TokenId id) const {
  return id >= 0 && id < size_ && added_at_[id] >= 0 ? &stages_.added[added_at_[id]] : nullptr;
}

std::vector<Spelled> TokenPipeline::spelled(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<Spelled> out;
  for (const TokenId id : ids) {
    const auto* known = added(id);
    if (known != nullptr && known->special && skip_special) continue;
    auto text = token(id);
    if (!text)
      throw base::ConfigError(base::format("the token id {} is not in the vocabulary", id),
                              base::format("ids go from 0 to {}, and some of them may be free", size_ - 1));
    out.push_back({std::move(*text), {0}});
  }
  return out;
}

std::string TokenPipeline::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  if (byte_bpe_ != nullptr && stages_.byte_level_decoder) {
    for (const TokenId id : ids) {
      const auto* known = added(id);
      const auto* bytes = known == nullptr ? byte_bpe_->bytes_of(id) : nullptr;
      if (bytes != nullptr)
        out += *bytes;
      else
        for (const auto& item : stages_.decoder(spelled({&id, 1}, skip_special))) out += item.text;
    }
    return out;
  }
  auto items = spelled(ids, skip_special);
  if (!stages_.decoder) {
    for (size_t i = 0; i < items.size(); ++i) out += (i > 0 ? " " : "") + items[i].text;
    return out;
  }
  for (const auto& item : stages_.decoder(std::move(items))) out += item.text;
  return out;
}

Decoded TokenPipeline::decode_with_starts(std::span<const TokenId> ids) const {
  auto items = spelled(ids, false);
  if (stages_.decoder)
    items = stages_.decoder(std::move(items));
  else
    for (size_t i = 1; i < items.size(); ++i) items[i - 1].text += ' ';
  Decoded out;
  for (const auto& item : items) {
    for (const size_t start : item.starts) out.starts.push_back(out.bytes.size() + start);
    out.bytes += item.text;
  }
  return out;
}

std::optional<std::string> TokenPipeline::token(TokenId id) const {
  const auto* known = added(id);
  return known != nullptr ? std::optional(spelled_[added_at_[id]]) : stages_.model->token(id);
}

std::optional<TokenId> TokenPipeline::id_of(std::string_view token) const {
  for (const auto& known : stages_.added)
    if (known.text == token) return known.id;
  return stages_.model->id_of(token);
}

}  // namespace hyperion::data

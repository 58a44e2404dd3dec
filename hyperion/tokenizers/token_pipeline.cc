#include "hyperion/tokenizers/token_pipeline.h"

#include <algorithm>
#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/byte_alphabet.h"

namespace hyperion::tokenizers {

TokenPipeline::TokenPipeline(TokenStages stages)
    : stages_(std::move(stages)),
      byte_bpe_(stages_.pre_tokenizer.byte_level ? dynamic_cast<const ByteBpe*>(stages_.model.get()) : nullptr),
      size_(stages_.model->size()) {
  std::sort(stages_.added.begin(), stages_.added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const auto& token : stages_.added) size_ = std::max<int64_t>(size_, token.id + 1);
  added_at_.assign(size_, -1);
  for (const auto& token : stages_.added) {
    added_at_[token.id] = static_cast<int32_t>(spelled_.size());
    spelled_.push_back(token.normalized && stages_.normalizer ? stages_.normalizer(TracedText(token.text)).text()
                                                              : token.text);
    (token.normalized ? in_normalized_ : in_raw_).add(spelled_.back(), token);
  }
}

void TokenPipeline::trace_bytes(const Stretch& stretch, Out& out) const {
  if (!out.traced) return;
  for (size_t at = 0; out.ranges.size() < out.ids.size();) {
    const size_t size = byte_bpe_->bytes_of(out.ids[out.ranges.size()])->size();
    out.ranges.push_back(stretch.origin(at, at + size));
    at += size;
  }
}

void TokenPipeline::encode_plain(const Stretch& stretch, Out& out) const {
  if (stretch.text.empty()) return;
  const auto& pre = stages_.pre_tokenizer;
  const bool scans = byte_bpe_ != nullptr && pre.scanner && (!out.traced || byte_bpe_->loses_nothing());
  const bool gets_space = scans && pre.prefix_space && stretch.text.front() != ' ';
  if (scans && !gets_space) {
    byte_bpe_->encode_text(*pre.scanner, stretch.text, out.threads, out.ids);
    return trace_bytes(stretch, out);
  }
  const auto text = stretch.normalized != nullptr
                        ? stretch.normalized->part(stretch.at, stretch.at + stretch.text.size())
                        : TracedText(stretch.text, stretch.at, out.traced);
  if (!scans) return encode_pieces(text, out);
  const auto spaced = prepended(text, " ");
  byte_bpe_->encode_text(*pre.scanner, spaced.text(), out.threads, out.ids);
  trace_bytes({spaced.text(), 0, &spaced}, out);
}

void TokenPipeline::encode_pieces(TracedText text, Out& out) const {
  std::vector<TracedText> pieces{std::move(text)};
  const size_t most = most_grown(pieces.front().text().size());
  for (const auto& step : stages_.pre_tokenizer.steps) {
    pieces = step(std::move(pieces));
    check_grown(std::accumulate(pieces.begin(), pieces.end(), size_t{0},
                                [](size_t bytes, const TracedText& piece) { return bytes + piece.text().size(); }),
                most);
  }
  std::erase_if(pieces, [](const TracedText& piece) { return piece.text().empty(); });
  if (!out.traced) {
    std::vector<std::string_view> views;
    for (const auto& piece : pieces) views.emplace_back(piece.text());
    return stages_.model->encode(views, out.ids);
  }
  for (const auto& piece : pieces) {
    const size_t first = out.ranges.size();
    stages_.model->encode(piece.text(), out.ids, out.ranges);
    for (size_t i = first; i < out.ranges.size(); ++i)
      out.ranges[i] = piece.origin(out.ranges[i].begin, out.ranges[i].end);
  }
}

// Text between tokens that are looked for before it is normalized.
void TokenPipeline::encode_part(std::string_view text, size_t at, Out& out) const {
  Stretch all{text, at};
  std::optional<TracedText> changed;
  if (stages_.normalizer) {
    changed = stages_.normalizer(TracedText(text, at, out.traced));
    all = {changed->text(), 0, &*changed};
  }
  if (in_normalized_.empty()) return encode_plain(all, out);
  for (const auto& part : in_normalized_.split(all.text)) {
    const auto from = static_cast<size_t>(part.text.data() - all.text.data());
    if (part.id >= 0)
      out.add(part.id, all.origin(from, from + part.text.size()));
    else
      encode_plain({part.text, all.at + from, all.normalized}, out);
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
  trace_bytes({text.substr(valid), valid}, out);
}

void TokenPipeline::encode_parts(std::span<const AddedTokenFinder::Part> parts, const char* start, Out& out) const {
  for (const auto& part : parts) {
    const auto at = static_cast<size_t>(part.text.data() - start);
    if (part.id >= 0)
      out.add(part.id, {at, at + part.text.size()});
    else
      encode_part(part.text, at, out);
  }
}

void TokenPipeline::surround(bool special, Out& out) const {
  const Surround around = special ? stages_.surround : Surround();
  const auto finish = [&](auto& items, auto&& of) {
    if (stages_.truncation) {
      const auto [first, last] = kept_of(items.size(), *stages_.truncation, around.before.size() + around.after.size());
      items.resize(last);
      items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(first));
    }
    for (size_t i = 0; i < around.before.size(); ++i)
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(i), of(around.before[i]));
    for (const TokenId id : around.after) items.push_back(of(id));
    if (stages_.padding)
      items.insert(stages_.padding->on_left ? items.begin() : items.end(),
                   padded_size(items.size(), *stages_.padding) - items.size(), of(stages_.padding->id));
  };
  finish(out.ids, [](TokenId id) { return id; });
  if (out.traced) finish(out.ranges, [](TokenId) { return text::ByteRange(); });
}

TokenPipeline::Out TokenPipeline::encode_all(std::string_view text, bool special, int threads, bool traced) const {
  Out out{{}, {}, threads, traced};
  out.ids.reserve(text.size() / 3 + 16);
  const size_t valid = text::valid_prefix(text);
  if (valid != text.size())
    encode_bytes(text, valid, out);
  else if (in_raw_.empty())
    encode_part(text, 0, out);
  else
    encode_parts(in_raw_.split(text), text.data(), out);
  surround(special, out);
  return out;
}

std::vector<TokenId> TokenPipeline::encode(std::string_view text, bool special, int threads) const {
  return encode_all(text, special, threads, false).ids;
}

Encoded TokenPipeline::encode_with_offsets(std::string_view text, bool special) const {
  auto out = encode_all(text, special, 1, true);
  return {std::move(out.ids), std::move(out.ranges)};
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

}  // namespace hyperion::tokenizers

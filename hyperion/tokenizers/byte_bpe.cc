#include "hyperion/tokenizers/byte_bpe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/byte_alphabet.h"

namespace hyperion::tokenizers {
namespace {

struct PieceKey {
  uint64_t low, high;  // the bytes, zeros after them, and their count in the last byte
  bool operator==(const PieceKey&) const = default;
};
constexpr size_t kKeyBytes = 15;

PieceKey key_of(const char* at, size_t size, const char* readable) {
  PieceKey key{0, 0};
  if (readable - at >= 16) {  // a fixed size is two loads; what is too much is masked off
    std::memcpy(&key, at, 16);
    if (size < 8) {
      key.low &= (uint64_t{1} << 8 * size) - 1;
      key.high = 0;
    } else {
      key.high &= (uint64_t{1} << 8 * (size - 8)) - 1;
    }
  } else {
    std::memcpy(&key, at, size);
  }
  key.high |= static_cast<uint64_t>(size) << 56;
  return key;
}

// Parts of a quarter of a megabyte or more, which no piece crosses; at most so many.
constexpr size_t kPartsAThread = 4, kLeastPart = 1 << 18, kUsualPart = 1 << 20;
std::vector<std::string_view> cut_safely(std::string_view text, size_t parts) {
  const size_t length = std::max(text.size() / std::max<size_t>(parts, 1) + 1, kLeastPart);
  std::vector<std::string_view> out;
  while (text.size() > length) {
    size_t at = length;
    while (at < text.size() && !always_cuts(text, at)) ++at;
    if (at == text.size()) break;
    out.push_back(text.substr(0, at));
    text.remove_prefix(at);
  }
  out.push_back(text);
  return out;
}

}  // namespace

// What short pieces became the last time; a piece takes the place of another with the same hash.
class ByteBpe::Cache {
 public:
  struct Entry {
    PieceKey key{0, 0};
    std::array<TokenId, 4> ids{};  // -1 after the last
  };
  Entry& at(const PieceKey& key) {
    const uint64_t mixed = (key.low ^ key.high * 0xD6E8FEB86659FD93u) * 0x9E3779B97F4A7C15u;
    return entries_[(mixed ^ mixed >> 32) >> 5 & (kEntries - 1)];
  }

 private:
  static constexpr size_t kEntries = 1 << 16;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

class ByteBpe::CacheLease {
 public:
  explicit CacheLease(const ByteBpe& owner) : owner_(owner) {
    const std::lock_guard lock(owner.mutex_);
    if (!owner.caches_.empty()) {
      cache_ = std::move(owner.caches_.back());
      owner.caches_.pop_back();
    }
    if (!cache_) cache_ = std::make_unique<Cache>();
  }
  ~CacheLease() {
    const std::lock_guard lock(owner_.mutex_);
    owner_.caches_.push_back(std::move(cache_));
  }
  CacheLease(const CacheLease&) = delete;
  CacheLease& operator=(const CacheLease&) = delete;
  Cache& operator*() { return *cache_; }

 private:
  const ByteBpe& owner_;
  std::unique_ptr<Cache> cache_;
};

ByteBpe::ByteBpe(Vocabulary bytes, Vocabulary others, MergeTable merges, Options options)
    : bytes_(std::move(bytes)), others_(std::move(others)), merges_(std::move(merges)), options_(options) {
  for (int value = 0; value < 256; ++value) {
    const char byte = static_cast<char>(value);
    byte_[value] = bytes_.id_of({&byte, 1}).value_or(options_.unknown.value_or(-1));
  }
}

ByteBpe::~ByteBpe() = default;

void ByteBpe::encode_anew(std::string_view piece, std::vector<TokenId>& out,
                          std::vector<text::ByteRange>* ranges) const {
  if (options_.whole_pieces)
    if (const auto id = bytes_.id_of(piece)) {
      if (ranges != nullptr) ranges->push_back({0, piece.size()});
      return out.push_back(*id);
    }
  const size_t first = out.size(), first_range = ranges != nullptr ? ranges->size() : 0;
  for (size_t at = 0; at < piece.size(); ++at) {
    const TokenId id = byte_[static_cast<unsigned char>(piece[at])];
    if (id < 0) continue;
    out.push_back(id);
    if (ranges != nullptr) ranges->push_back({at, at + 1});
  }
  const size_t left =
      merges_.merge(std::span(out).subspan(first), ranges != nullptr ? ranges->data() + first_range : nullptr);
  out.resize(first + left);
  if (ranges != nullptr) ranges->resize(first_range + left);
}

void ByteBpe::encode(std::string_view piece, std::vector<TokenId>& out, std::vector<text::ByteRange>& ranges) const {
  encode_anew(piece, out, &ranges);
}

inline void ByteBpe::encode_piece(const char* at, const char* end, const char* readable, Cache& cache,
                                  std::vector<TokenId>& out) const {
  const auto size = static_cast<size_t>(end - at);
  if (size > kKeyBytes) return encode_anew({at, size}, out);
  const PieceKey key = key_of(at, size, readable);
  auto& entry = cache.at(key);
  if (entry.key == key) {
    for (const TokenId id : entry.ids) {
      if (id < 0) break;
      out.push_back(id);
    }
    return;
  }
  const size_t first = out.size();
  encode_anew({at, size}, out);
  if (out.size() - first > entry.ids.size()) return;
  entry.key = key;
  entry.ids.fill(-1);
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), entry.ids.begin());
}

void ByteBpe::encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const {
  CacheLease cache(*this);
  for (const auto piece : pieces)
    if (!piece.empty())
      encode_piece(piece.data(), piece.data() + piece.size(), piece.data() + piece.size(), *cache, out);
}

void ByteBpe::encode_text(Pattern pattern, std::string_view text, std::vector<TokenId>& out, size_t* last_piece) const {
  CacheLease cache(*this);
  const auto& pages = text::class_pages();
  const char* const end = text.data() + text.size();
  size_t before = out.size();
  for (const char* at = text.data(); at < end;) {
    const char* const stop = piece_end(pattern, pages, at, end);
    before = out.size();
    encode_piece(at, stop, end, *cache, out);
    at = stop;
  }
  if (last_piece != nullptr) *last_piece = out.size() - before;
}

// The calling thread also puts finished parts in their order while the others go on.
void ByteBpe::encode_text(Pattern pattern, std::string_view text, int threads, std::vector<TokenId>& out) const {
  const auto parts = cut_safely(text, threads > 1 ? std::max(threads * kPartsAThread, text.size() / kUsualPart) : 1);
  if (parts.size() == 1) return encode_text(pattern, text, out);
  struct Part {
    std::vector<TokenId> ids;
    std::atomic<bool> done = false;
  };
  std::vector<Part> made(parts.size());
  std::atomic<size_t> next = 0;
  size_t put = 0;
  const auto work = [&](bool puts) {
    for (size_t part = next++; part < parts.size(); part = next++) {
      made[part].ids.reserve(parts[part].size() / 3);
      encode_text(pattern, parts[part], made[part].ids);
      made[part].done = true;
      for (; puts && put < made.size() && made[put].done; ++put) {
        out.insert(out.end(), made[put].ids.begin(), made[put].ids.end());
        std::vector<TokenId>().swap(made[put].ids);
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 1; i < threads; ++i) workers.emplace_back(work, false);
    work(true);
  }
  for (; put < made.size(); ++put) out.insert(out.end(), made[put].ids.begin(), made[put].ids.end());
}

void ByteBpe::encode_bytes(Pattern pattern, std::string_view bytes, std::vector<TokenId>& out) const {
  const size_t valid = text::valid_prefix(bytes);
  if (valid == bytes.size()) return encode_text(pattern, bytes, out);
  if (!loses_nothing())
    throw base::CorruptError(base::format("the text is not UTF-8 from byte {} on", valid),
                             "this vocabulary has no token for some bytes; give it UTF-8");
  std::vector<TokenId> head;
  size_t unstable = 0;
  encode_text(pattern, bytes.substr(0, valid), head, &unstable);
  // White space before the last piece goes with it, as longer white space might have been cut elsewhere.
  const auto blank = [&](size_t from_end) {
    const std::string* token = bytes_of(head[head.size() - from_end]);
    return token != nullptr && token->find_first_not_of(" \n\t") == std::string::npos;
  };
  if (unstable > 0 && blank(unstable))
    while (unstable < head.size() && blank(unstable + 1)) ++unstable;
  size_t kept = valid;
  for (size_t i = 1; i <= unstable; ++i) kept -= bytes_of(head[head.size() - i])->size();
  out.insert(out.end(), head.begin(), head.end() - static_cast<std::ptrdiff_t>(unstable));
  encode_anew(bytes.substr(kept), out);
}

std::optional<TokenId> ByteBpe::id_of(std::string_view token) const {
  if (const auto id = others_.id_of(token)) return id;
  const auto raw = unspell_bytes(token);
  return raw ? bytes_.id_of(*raw) : std::nullopt;
}

std::optional<std::string> ByteBpe::token(TokenId id) const {
  if (const auto* raw = bytes_.token(id)) return spell_bytes(*raw);
  const auto* other = others_.token(id);
  return other != nullptr ? std::optional(*other) : std::nullopt;
}

bool ByteBpe::loses_nothing() const {
  return std::find(byte_.begin(), byte_.end(), -1) == byte_.end() && !options_.unknown;
}

const std::string* ByteBpe::bytes_of(TokenId id) const {
  const auto* raw = bytes_.token(id);
  return raw != nullptr ? raw : others_.token(id);
}

namespace {

void require_bytes(const Vocabulary& bytes, const std::string& place) {
  for (int value = 0; value < 256; ++value)
    if (const char byte = static_cast<char>(value); !bytes.id_of({&byte, 1}))
      throw base::CorruptError(base::format("{}: the byte {} has no rank", place, value),
                               "a rank file holds all 256 bytes");
}

// Every way to make a token of two. Right for any ranks, but a table several times as large.
MergeTable all_splits(const Vocabulary& bytes) {
  std::vector<std::array<TokenId, 3>> merges;
  for (TokenId id = 0; id < bytes.size(); ++id) {
    const std::string* token = bytes.token(id);
    for (size_t cut = 1; token != nullptr && cut < token->size(); ++cut) {
      const auto left = bytes.id_of(std::string_view(*token).substr(0, cut));
      const auto right = left ? bytes.id_of(std::string_view(*token).substr(cut)) : std::nullopt;
      if (right) merges.push_back({*left, *right, id});
    }
  }
  MergeTable table(merges.size());
  for (const auto& [left, right, id] : merges) table.add(left, right, {id, id});
  return table;
}

}  // namespace

MergeTable merges_of_ranks(const Vocabulary& bytes, const std::string& place) {
  require_bytes(bytes, place);
  // Where the merges before a token always make exactly two parts of its bytes, no other two parts of it ever stand
  // side by side when its turn comes: a part is older than what is made of it, so turns come in the order of ranks.
  // Trained vocabularies are such.
  MergeTable table(bytes.count());
  std::vector<TokenId> symbols;
  for (TokenId id = 0; id < bytes.size(); ++id) {
    const std::string* token = bytes.token(id);
    if (token == nullptr || token->size() < 2) continue;
    symbols.clear();
    for (const char byte : *token) symbols.push_back(*bytes.id_of({&byte, 1}));
    if (table.merge(symbols) != 2) return all_splits(bytes);
    table.add(symbols[0], symbols[1], {id, id});
  }
  return table;
}

}  // namespace hyperion::tokenizers

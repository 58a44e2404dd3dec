// Documents as tokens in a prepared set. docs/format_set.md has the bytes.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "hyperion/data/set_file.h"

namespace hyperion::data {

inline constexpr const char* kTokens = "tokens";  // the kind of such a file

class TokenSet {
 public:
  explicit TokenSet(const base::Path& path);

  const SetFile& file() const { return file_; }
  int64_t documents() const { return file_.records(); }
  int64_t tokens() const { return tokens_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t end() const { return end_; }  // the id that ends a document; -1: none
  bool masked() const { return !learned_.empty(); }
  int64_t learned_in_all() const { return learned_in_all_; }

  // Tokens first .. first + out.size() - 1, counted over all documents; and which of them the loss counts (1, else 0).
  // Both throw CorruptError where the bytes are not those that were written, and for an id outside the vocabulary.
  void read(int64_t first, std::span<int64_t> out) const;
  void read_loss_mask(int64_t first, std::span<uint8_t> out) const;
  struct Extent {
    int64_t first = 0, count = 0;
  };
  Extent document(int64_t index) const;
  int64_t document_of(int64_t token) const;

  // Every hash, bound and id. Throws CorruptError for the first that is wrong.
  void verify(const std::function<void(uint64_t)>& progress = {}) const;

 private:
  SetFile file_;
  int64_t width_, vocabulary_, end_, tokens_, learned_in_all_;
  std::string_view learned_;
};

// The tokens of documents on their way into a file.
class TokenWriter {
 public:
  // `width`: 2 or 4 bytes a token.
  TokenWriter(base::FileSystem& files, const base::Path& path, int64_t width, const SetWriter::Kept& kept);
  // `learned`: one entry a token, where the set has masks; empty: none has.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> learned);
  int64_t documents() const { return file_.records(); }
  int64_t tokens() const { return static_cast<int64_t>(file_.payload_bytes()) / width_; }
  // Also what no byte is full of yet: bits of the mask, which `kept` cannot hold.
  struct State {
    SetWriter::Kept kept;
    int bits = 0, bit_count = 0;
    int64_t learned = 0;
  };
  State make_safe();
  void restore(const State& state) { bits_ = state.bits, bit_count_ = state.bit_count, learned_ = state.learned; }
  void finish(int64_t vocabulary, int64_t end, const nlohmann::json& more);

 private:
  SetWriter file_;
  int64_t width_, learned_ = 0;
  int bits_ = 0, bit_count_ = 0;  // of the mask
  std::string encoded_;
};

// 2 where every id is below 65,536.
inline int64_t token_width(int64_t vocabulary) { return vocabulary <= 65'536 ? 2 : 4; }

}  // namespace hyperion::data

// A text that knows which bytes of another text its own bytes came from, however often it is rewritten and cut.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

// A tokenizer's file comes from anywhere, and may make a text grow at every step: this many bytes may become of so
// many. The widest that is meant, a compatibility form whose bytes are then spelled, makes 22 of one.
constexpr size_t most_grown(size_t bytes) { return 32 * bytes + 1024; }
// Throws CorruptError where `bytes` are more than `most`.
void check_grown(size_t bytes, size_t most);

class TracedText {
 public:
  // A copy of the bytes from `base` on of the text that is traced back to. Without `traced` only the text is kept: the
  // same work, but no origins.
  explicit TracedText(std::string_view text, size_t base = 0, bool traced = false)
      : text_(text),
        base_(base),
        most_(most_grown(text.size())),
        head_(base == 0 && !text.empty() ? 1 : 0),
        traced_(traced) {}

  const std::string& text() const { return text_; }
  bool traced() const { return traced_; }
  // What the bytes [begin, end) of this text came from; begin < end. Of a text that is not traced: nothing of use.
  text::ByteRange origin(size_t begin, size_t end) const {
    if (origins_.empty()) return {base_ + begin, base_ + end};
    return {origins_[begin].begin, origins_[end - 1].end};
  }
  // Whether its first byte came from the very start of the text that is traced back to; known without tracing too.
  bool from_start() const { return head_ > 0; }
  TracedText part(size_t begin, size_t end) const;

 private:
  friend class Rewrite;
  std::string text_;
  size_t base_, most_;  // most_: bytes that it may be rewritten into
  size_t head_;         // of its first bytes, how many came from that start
  bool traced_;
  std::vector<text::ByteRange> origins_;  // of each byte; empty: byte i came from base_ + i
};

// Writes a traced text anew, from its start to its end: stretches are kept, or others put in their place, or left out.
class Rewrite {
 public:
  explicit Rewrite(const TracedText& from) : from_(from), out_({}, from.base_, from.traced_) {
    out_.most_ = from.most_;
    out_.text_.reserve(from.text_.size());
  }
  void keep(size_t begin, size_t end);
  // `text` in place of [begin, end), which is not empty: all of it came from there. Throws CorruptError where what is
  // written, by this and all rewrites before it, is more than most_grown allows.
  void put(std::string_view text, size_t begin, size_t end);
  TracedText finish() { return std::move(out_); }

 private:
  void write_origins();
  void count_head(size_t bytes) {  // of what is written next: so many came from the start
    if (out_.head_ == out_.text_.size()) out_.head_ += bytes;
  }

  const TracedText& from_;
  TracedText out_;
};

}  // namespace hyperion::tokenizers

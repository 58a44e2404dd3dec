// What the job's store (store_server.h) and its clients say to each other. Free of c10d.
//
// A connection begins with a proof by both ends that they know the job's secret, which itself is never sent:
//   server: kGreeting, 32 random bytes S
//   client: 32 random bytes C, HMAC(secret, "client" S C)
//   server: HMAC(secret, "server" S C), or kRefusal and the end
// Then requests and answers in turn, each a frame: 4 bytes of size, little end first, and as many bytes. A request's
// first byte is its Ask, an answer's its Answer; strings and lists stand behind their 4-byte count. What passes is not
// encrypted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/comm/hmac.h"

namespace hyperion::comm {

constexpr std::string_view kGreeting = "hyperion store 1\n";
constexpr size_t kNonce = 32;
constexpr std::string_view kRefusal{"the secret of this job is other\n", 32};
constexpr size_t kMostFrame = size_t{64} << 20;

enum class Ask : uint8_t {
  set,          // key, value
  get,          // milliseconds (8 bytes), keys: waits for all of them; answers their values
  wait,         // milliseconds, keys
  add,          // key, number (8 bytes): the value as a decimal number, 0 where there is none; answers the sum
  compare_set,  // key, expected, desired: answers the value afterwards
  erase,        // key: answers whether it was there (8 bytes)
  check,        // keys: answers whether all are there (8 bytes)
  append,       // key, value
  set_many,     // keys, values
  count,        // answers how many keys there are (8 bytes)
  list,         // answers the keys
  beat,         // rank (8 bytes): it lives; answers why the job is over, an empty text while it is not
  leave,        // rank: it ends in good order, nobody shall miss its beats
};
enum class Answer : uint8_t { done, timed_out, refused };  // refused: behind it stands why

inline Digest proof(std::string_view secret, std::string_view who, std::string_view server, std::string_view client) {
  return hmac_sha256(secret, std::string(who) + std::string(server) + std::string(client));
}

// Puts a frame together; `bytes` has its size in front.
class FrameWriter {
 public:
  template <class Kind>
  explicit FrameWriter(Kind kind) : bytes_(4, '\0') {
    bytes_ += static_cast<char>(kind);
  }
  FrameWriter& number(uint64_t value) { return put(value, 8); }
  FrameWriter& text(std::string_view text) {
    put(text.size(), 4);
    bytes_ += text;
    return *this;
  }
  template <class List>
  FrameWriter& list(const List& texts) {
    put(texts.size(), 4);
    for (const auto& one : texts) text({reinterpret_cast<const char*>(one.data()), one.size()});
    return *this;
  }
  std::string bytes() && {
    const size_t size = bytes_.size() - 4;
    for (size_t i = 0; i < 4; ++i) bytes_[i] = static_cast<char>(size >> (8 * i));
    return std::move(bytes_);
  }

 private:
  FrameWriter& put(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

// Takes a frame apart. Where it is shorter than it says, everything from there on is empty and `fine` is false: no
// memory is taken for a count that the bytes do not bear out.
class FrameReader {
 public:
  explicit FrameReader(std::string_view frame) : rest_(frame) {}
  uint8_t kind() { return static_cast<uint8_t>(take(1)); }
  uint64_t number() { return take(8); }
  std::string_view text() {
    const uint64_t size = take(4);
    if (size > rest_.size()) return fail(), std::string_view();
    const auto text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }
  std::vector<std::string> list() {
    const uint64_t count = take(4);
    std::vector<std::string> texts;
    if (count > rest_.size() / 4) return fail(), texts;
    for (uint64_t i = 0; i < count && fine_; ++i) texts.emplace_back(text());
    return texts;
  }
  bool fine() const { return fine_; }
  bool whole() const { return fine_ && rest_.empty(); }

 private:
  void fail() { fine_ = false, rest_ = {}; }
  uint64_t take(size_t width) {
    if (rest_.size() < width) return fail(), 0;
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= uint64_t{static_cast<uint8_t>(rest_[i])} << (8 * i);
    rest_.remove_prefix(width);
    return value;
  }
  std::string_view rest_;
  bool fine_ = true;
};

}  // namespace hyperion::comm

// Fields of events that have no column, "args" above all, kept to the byte in little room: a form that many events
// share ('"args": {"correlation": #, "stream": #}'), and what stands in its places.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "hyperion/trace/column.h"
#include "hyperion/trace/string_pool.h"

namespace hyperion::trace {

// Places in a form.
constexpr char kIntegerPlace = 1;  // a whole number of at most 18 digits: a varint, zigzag
constexpr char kDecimalPlace = 2;  // "-12.50": how many digits follow the point (a byte), then all of them as a varint
constexpr char kTextPlace = 3;     // anything else, as it stood: the number of a text; of strings what is in the quotes

// Where the packed fields of each event lie.
class PackedFields {
 public:
  StringPool forms, texts;

  size_t size() const { return offsets_.size(); }
  void append(std::string_view packed);  // of the next event; "" for none

  // As they are packed: the number of the form as a varint, then what stands in its places. "" where there is none.
  std::string_view packed(size_t event) const;
  // As JSON: '"id": 7, "args": {"stream": 20}', the text that was packed. "" where there is none.
  std::string text(size_t event) const;
  size_t bytes() const;  // of memory

 private:
  static constexpr size_t kGroup = 1024;  // events that share a base, so that an offset has 32 bits
  Column<uint64_t> bases_;
  Column<uint32_t> offsets_;
  Column<char> bytes_;
};

// Bytes that are put together again and again.
class Scratch {
 public:
  void clear() { size_ = 0; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {data_.get(), size_}; }
  void push_back(char c) {
    if (room_ - size_ < kMostVarint) grow(kMostVarint);
    data_[size_++] = c;
  }
  void append(std::string_view text) {
    if (text.empty()) return;
    if (room_ - size_ < text.size()) grow(text.size());
    std::memcpy(data_.get() + size_, text.data(), text.size());
    size_ += text.size();
  }
  void append_varint(uint64_t value) {
    if (room_ - size_ < kMostVarint) grow(kMostVarint);
    for (; value >= 0x80; value >>= 7) data_[size_++] = static_cast<char>(value | 0x80);
    data_[size_++] = static_cast<char>(value);
  }

 private:
  static constexpr size_t kMostVarint = 10;
  void grow(size_t more);
  std::unique_ptr<char[]> data_;
  size_t size_ = 0, room_ = 0;
};

// Moves `at` behind it; stops at the end.
uint64_t take_varint(const char*& at, const char* end);
constexpr uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t unzigzag(uint64_t value) { return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1)); }

}  // namespace hyperion::trace

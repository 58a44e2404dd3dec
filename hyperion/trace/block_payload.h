// What a block of our own trace file holds, as bytes: numbers and stretches of text one after the other, long ones
// packed each by itself, all short ones together. docs/format_trace.md has it byte by byte.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hyperion/base/varint.h"
#include "hyperion/trace/expected_number.h"

namespace hyperion::trace {

constexpr size_t kPackedApart = 256;             // bytes from which on a stretch is packed by itself
constexpr size_t kMostMain = size_t{256} << 20;  // bytes of what is not; a reader takes no more
constexpr size_t kMostStretch = size_t{256} << 20;

// How the numbers of a column stand in its stretch.
enum class Layout : uint8_t {
  zeros,    // all are 0: there is no stretch
  varints,  // seven bits a byte, the lowest first
  planes,   // the lowest byte of all, then the second of all, ...
};

class PayloadWriter {
 public:
  void number(uint64_t value);
  void text(std::string_view text);  // its length, then its bytes; for short ones
  void stretch(std::string_view bytes);
  // In the layout that packs best.
  void column(Guess guess, std::span<const uint64_t> codes);
  std::string finish() &&;

 private:
  void bytes(std::string_view plain, const std::string& packed);
  std::string main_, apart_;
};

// About how many bytes the numbers will take.
size_t estimated_bytes(std::span<const uint64_t> codes);

// Thrown where a payload is not as it must be.
struct PayloadFault {
  const char* what;  // "a column ends too early"
};

// One column's numbers, one after the other.
class ColumnReader {
 public:
  ColumnReader() = default;
  uint64_t next();
  void finish() const;  // PayloadFault where something is left

  Guess guess = Guess::nothing;

 private:
  friend class PayloadReader;
  Layout layout_ = Layout::zeros;
  size_t count_ = 0, width_ = 0, at_ = 0;
  std::string own_;  // what was packed by itself
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

class PayloadReader {
 public:
  explicit PayloadReader(std::string_view payload);  // which must outlive it
  PayloadReader(const PayloadReader&) = delete;
  PayloadReader& operator=(const PayloadReader&) = delete;

  uint64_t number();
  uint64_t number(uint64_t most, const char* what);
  std::string_view text();
  std::string stretch();
  ColumnReader column(size_t count);  // lives as long as this
  void finish() const;

 private:
  std::string_view take(size_t size);
  std::string unpack_next(size_t size);
  std::string main_;
  size_t at_ = 0;
  std::string_view apart_;
};

using base::append_varint;

}  // namespace hyperion::trace

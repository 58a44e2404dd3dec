// Messages of Google's protocol buffers, written field by field.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "hyperion/base/varint.h"

namespace hyperion::base {

class ProtobufMessage {
 public:
  void number(int field, uint64_t value) {
    tag(field, 0);
    append_varint(bytes_, value);
  }
  void fixed64(int field, uint64_t value) {
    tag(field, 1);
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(value >> shift));
  }
  void real(int field, double value) { fixed64(field, std::bit_cast<uint64_t>(value)); }
  void real32(int field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift));
  }
  void text(int field, std::string_view value) {  // also a message within
    tag(field, 2);
    append_varint(bytes_, value.size());
    bytes_ += value;
  }
  void clear() { bytes_.clear(); }
  bool empty() const { return bytes_.empty(); }
  std::string_view bytes() const { return bytes_; }

 private:
  void tag(int field, int kind) {
    append_varint(bytes_, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind));
  }
  std::string bytes_;
};

}  // namespace hyperion::base

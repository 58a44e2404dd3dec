// Messages of Google's protocol buffers, read field by field, never beyond their end.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hyperion::trace {

// Thrown where bytes are no message.
struct ProtobufFault {
  const char* what;  // "a field is longer than what holds it"
  const char* at;    // within the message
};

struct ProtobufField {
  enum class Kind : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  int number = 0;
  Kind kind = Kind::varint;
  uint64_t value = 0;      // of numbers
  std::string_view bytes;  // of texts and messages within

  bool is_number() const { return kind != Kind::bytes; }
  bool is_bytes() const { return kind == Kind::bytes; }
  double real() const {
    return kind == Kind::fixed32 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value)))
                                 : std::bit_cast<double>(value);
  }
};

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : at_(message.data()), end_(at_ + message.size()) {}

  // False at the end.
  bool next(ProtobufField& field) {
    if (at_ == end_) return false;
    const char* begin = at_;
    const uint64_t tag = varint();
    const uint64_t number = tag >> 3;
    if (number == 0 || number > kMostNumber) throw ProtobufFault{"a field has no number that there is", begin};
    field.number = static_cast<int>(number);
    field.kind = static_cast<ProtobufField::Kind>(tag & 7);
    field.bytes = {};
    switch (field.kind) {
      case ProtobufField::Kind::varint:
        field.value = varint();
        break;
      case ProtobufField::Kind::fixed64:
        field.value = fixed<uint64_t>();
        break;
      case ProtobufField::Kind::fixed32:
        field.value = fixed<uint32_t>();
        break;
      case ProtobufField::Kind::bytes: {
        field.value = varint();
        if (field.value > left()) throw ProtobufFault{"a field is longer than what holds it", begin};
        field.bytes = {at_, static_cast<size_t>(field.value)};
        at_ += field.bytes.size();
        break;
      }
      default:
        throw ProtobufFault{"a field is of no kind that there is", begin};
    }
    return true;
  }

  const char* at() const { return at_; }

 private:
  static constexpr uint64_t kMostNumber = (1U << 29) - 1;

  size_t left() const { return static_cast<size_t>(end_ - at_); }

  uint64_t varint() {
    const char* begin = at_;
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) throw ProtobufFault{"a number ends too early", begin};
      const auto byte = static_cast<unsigned char>(*at_++);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw ProtobufFault{"a number has more than 64 bits", begin};
  }

  template <class T>
  T fixed() {
    if (left() < sizeof(T)) throw ProtobufFault{"a number ends too early", at_};
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  const char* at_;
  const char* end_;
};

}  // namespace hyperion::trace

// CRC-32 of bytes, by its polynomial with the bits reversed: of zip and Ethernet, and Castagnoli's, which LevelDB and
// TensorFlow take.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace hyperion::base {

constexpr uint32_t kCrcIeee = 0xEDB88320, kCrcCastagnoli = 0x82F63B78;

template <uint32_t kPolynomial>
uint32_t crc32(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

// As LevelDB and TensorFlow store one, so that a CRC of bytes that hold CRCs is worth something.
constexpr uint32_t masked_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8; }

}  // namespace hyperion::base

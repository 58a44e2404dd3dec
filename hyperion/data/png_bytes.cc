#include "hyperion/data/png_bytes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace hyperion::data {
namespace {

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

uint32_t crc(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> all{};
    for (uint32_t n = 0; n < 256; ++n) {
      all[n] = n;
      for (int bit = 0; bit < 8; ++bit) all[n] = (all[n] & 1) != 0 ? 0xEDB88320u ^ (all[n] >> 1) : all[n] >> 1;
    }
    return all;
  }();
  uint32_t sum = 0xFFFFFFFFu;
  for (const char byte : bytes) sum = table[(sum ^ static_cast<unsigned char>(byte)) & 255] ^ (sum >> 8);
  return ~sum;
}

std::string chunk(const char* type, const std::string& content) {
  const std::string body = type + content;
  return big_endian(static_cast<uint32_t>(content.size())) + body + big_endian(crc(body));
}

// A zlib stream of stored blocks.
std::string stored(const std::string& bytes) {
  constexpr size_t kMost = 65'535;
  std::string out = "\x78\x01";
  uint32_t a = 1, b = 0;  // Adler-32
  for (const char byte : bytes) a = (a + static_cast<unsigned char>(byte)) % 65'521, b = (b + a) % 65'521;
  for (size_t from = 0; from < bytes.size(); from += kMost) {
    const size_t size = std::min(kMost, bytes.size() - from);
    out += static_cast<char>(from + size == bytes.size());
    for (const size_t field : {size, ~size}) out += static_cast<char>(field), out += static_cast<char>(field >> 8);
    out.append(bytes, from, size);
  }
  return out + big_endian(b << 16 | a);
}

}  // namespace

std::string png_bytes(const Pixels& image) {
  const int64_t width = 3 * image.size.width;
  std::string rows;
  for (int64_t y = 0; y < image.size.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(image.row(y)), static_cast<size_t>(width));
  }
  const std::string header = big_endian(static_cast<uint32_t>(image.size.width)) +
                             big_endian(static_cast<uint32_t>(image.size.height)) + std::string("\x08\x02\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", stored(rows)) + chunk("IEND", "");
}

}  // namespace hyperion::data

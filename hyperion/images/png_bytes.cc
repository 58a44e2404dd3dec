#include "hyperion/images/png_bytes.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "hyperion/images/deflate.h"

namespace hyperion::images {
namespace {

constexpr char kPaeth = 4;  // a row's filter: each byte less what its neighbours foretell

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

// The neighbour that a + b - c is nearest to: left, above, above left.
unsigned char paeth(int a, int b, int c) {
  const int by_left = std::abs(b - c), by_above = std::abs(a - c), by_corner = std::abs(a + b - 2 * c);
  const int best = by_left <= by_above && by_left <= by_corner ? a : by_above <= by_corner ? b : c;
  return static_cast<unsigned char>(best);
}

}  // namespace

std::string png_bytes(const Pixels& image) {
  const int64_t width = 3 * image.size.width;
  const std::vector<unsigned char> above_first(static_cast<size_t>(width));
  std::string rows;
  for (int64_t y = 0; y < image.size.height; ++y) {
    const unsigned char* row = image.row(y);
    const unsigned char* above = y > 0 ? image.row(y - 1) : above_first.data();
    rows += kPaeth;
    for (int64_t x = 0; x < width; ++x)
      rows += static_cast<char>(row[x] - paeth(x < 3 ? 0 : row[x - 3], above[x], x < 3 ? 0 : above[x - 3]));
  }
  const std::string header = big_endian(static_cast<uint32_t>(image.size.width)) +
                             big_endian(static_cast<uint32_t>(image.size.height)) + std::string("\x08\x02\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", zlib_stream(rows)) + chunk("IEND", "");
}

}  // namespace hyperion::images

// In a build without zlib: stored blocks.
#include <algorithm>
#include <cstdint>

#include "hyperion/images/deflate.h"

namespace hyperion::images {

std::string zlib_stream(const std::string& bytes) {
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
  for (const uint32_t half : {b, a}) out += static_cast<char>(half >> 8), out += static_cast<char>(half);
  return out;
}

}  // namespace hyperion::images

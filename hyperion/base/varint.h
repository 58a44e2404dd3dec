// Whole numbers in seven bits a byte, the lowest first: as protocol buffers and our traces write them.
#pragma once
#include <cstdint>
#include <string>

namespace hyperion::base {

inline void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

}  // namespace hyperion::base

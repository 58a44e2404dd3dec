#include "hyperion/base/hash.h"

#include <gtest/gtest.h>

namespace hyperion::base {
namespace {

std::string pattern(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 7 % 256);
  return bytes;
}

// Answers of the reference implementation (xxhash 3, XXH3_128bits and XXH3_64bits).
TEST(Hash, gives_the_reference_answers) {
  EXPECT_EQ(hash_hex(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_hex("hyperion"), "2b42e030078b7078cf4035cd20843836");
  EXPECT_EQ(hash_hex(pattern(1000)), "abee229cdadad76d10ad30264426c830");
  EXPECT_EQ(hash_64("hyperion"), 0xd6f15c07c3719e27u);
  EXPECT_EQ(hash_64("hyperion", 42), 0x20919bbfbe4dd05cu);
}

TEST(Hash, pieces_hash_as_the_whole) {
  for (const size_t size : {0, 1, 16, 17, 128, 129, 240, 241, 255, 256, 257, 1000, 5000}) {
    const std::string bytes = pattern(size);
    for (const size_t piece : {1, 3, 64, 255, 256, 4096}) {
      Hasher hasher;
      for (size_t at = 0; at < size; at += piece) hasher.update(std::string_view(bytes).substr(at, piece));
      EXPECT_EQ(hasher.hex(), hash_hex(bytes)) << size << " " << piece;
    }
  }
}

TEST(Hash, can_be_asked_between_pieces_and_moved) {
  Hasher hasher;
  hasher.update({});
  EXPECT_EQ(hasher.hex(), hash_hex(""));
  hasher.update("hype");
  EXPECT_EQ(hasher.hex(), hash_hex("hype"));
  Hasher moved = std::move(hasher);
  moved.update("rion");
  EXPECT_EQ(moved.hex(), hash_hex("hyperion"));
}

}  // namespace
}  // namespace hyperion::base

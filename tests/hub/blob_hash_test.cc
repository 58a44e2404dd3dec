#include "hyperion/hub/blob_hash.h"

#include <gtest/gtest.h>

namespace hyperion::hub {
namespace {

std::string hash_of(std::string_view text, size_t digits) {
  BlobHash hash(std::string(digits, '0'), text.size());
  hash.update(text.substr(0, 2));
  hash.update(text.substr(2));
  return hash.hex();
}

TEST(BlobHash, IsGitsNameOfASmallFileAndSha256OfALargeOne) {
  EXPECT_EQ(hash_of("hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
  EXPECT_EQ(hash_of("hello\n", 64), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
}

TEST(BlobHash, IsToldFromAnythingElse) {
  EXPECT_TRUE(is_blob_hash(std::string(40, 'a')) && is_blob_hash(std::string(64, '0')));
  EXPECT_FALSE(is_blob_hash("") || is_blob_hash(std::string(41, 'a')) || is_blob_hash(std::string(40, 'A')) ||
               is_blob_hash("../" + std::string(37, 'a')));
}

}  // namespace
}  // namespace hyperion::hub

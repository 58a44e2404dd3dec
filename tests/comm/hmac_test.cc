#include "hyperion/comm/hmac.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

namespace hyperion::comm {
namespace {

std::string hex_of(const Digest& digest) { return hex({reinterpret_cast<const char*>(digest.data()), digest.size()}); }

// The test cases of RFC 4231.
TEST(Hmac, is_the_standards) {
  EXPECT_EQ(hex_of(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, digests_differ_wherever_a_bit_does) {
  const Digest one = hmac_sha256("key", "x");
  EXPECT_TRUE(same_digest(one, one));
  for (size_t i = 0; i < one.size(); ++i) {
    Digest other = one;
    other[i] ^= 1;
    EXPECT_FALSE(same_digest(one, other));
  }
}

TEST(Hmac, of_a_key_that_is_empty_is_the_standards) {
  EXPECT_EQ(hex_of(hmac_sha256("", "")), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  EXPECT_EQ(hmac_sha256({}, {}), hmac_sha256("", ""));
}

// A store is forked: what it says must be news to whoever heard its parent.
TEST(Hmac, random_bytes_differ_after_a_fork) {
  random_bytes(16);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::write(ends[1], random_bytes(16).data(), 16) == 16 ? 0 : 1);
  std::string theirs(16, '\0');
  ASSERT_EQ(::read(ends[0], theirs.data(), theirs.size()), 16);
  ::waitpid(child, nullptr, 0);
  EXPECT_NE(theirs, random_bytes(16));
}

TEST(Hmac, random_bytes_do_not_repeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_bytes(16));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(random_bytes(0), "");
}

}  // namespace
}  // namespace hyperion::comm

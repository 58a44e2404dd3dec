// The short run; script/fuzz-images is the long one.
#include <gtest/gtest.h>

#include "tests/fuzz/image_inputs.h"
#include "tests/support/fuzz.h"
#include "tests/support/seed.h"

namespace hyperion::testing {
namespace {

TEST(FuzzReaders, images_are_read_or_refused_within_their_memory) {
  std::mt19937 random(seed());
  int read = 0, refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string& good = good_images()[i % good_images().size()];
    const std::string file = mutated(good, 700, image_words(), random);
    const auto place = static_cast<uint32_t>(random());
    const size_t peak = peak_allocated([&] { (reads_image(file, place) ? read : refused) += 1; });
    ASSERT_LE(peak, file.size() + 3 * kFuzzPixels + (1 << 20));
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace hyperion::testing

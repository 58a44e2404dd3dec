// The main of every test program. Each test draws the same numbers in every run: HYPERION_TEST_SEED (1 unless set)
// seeds LibTorch's generator before it, and a failure names the seed. The program leaves as the product does, without
// static destructors: LibTorch's own, beside CUDA's libraries, are not safe to run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/seed.h"

namespace {

class Seeds : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo&) override {
    if (hyperion::testing::seed_torch != nullptr) hyperion::testing::seed_torch(hyperion::testing::seed());
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (test.result()->Failed())
      std::printf("with HYPERION_TEST_SEED=%llu\n", static_cast<unsigned long long>(hyperion::testing::seed()));
  }
};

}  // namespace

uint64_t hyperion::testing::seed() {
  const char* text = std::getenv("HYPERION_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // What a test measures is no choice of the user's.
  std::string cache = (std::filesystem::temp_directory_path() / "hyperion-cache-XXXXXX").string();
  if (::mkdtemp(cache.data()) != nullptr) ::setenv("XDG_CACHE_HOME", cache.c_str(), /*overwrite=*/1);
  ::testing::UnitTest::GetInstance()->listeners().Append(new Seeds);
  const int code = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(cache, ignored);
  std::fflush(nullptr);
  ::_exit(code);
}

// The main of every test program. It leaves as the product does, without static destructors: LibTorch's own, beside
// CUDA's libraries, are not safe to run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  std::fflush(nullptr);
  ::_exit(code);
}

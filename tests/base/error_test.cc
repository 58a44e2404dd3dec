#include "hyperion/base/error.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <thread>

namespace hyperion::base {
namespace {

class ErrorTest : public testing::Test {
 protected:
  ~ErrorTest() override { current_activity() = {}; }
};

TEST_F(ErrorTest, says_what_and_hint) {
  EXPECT_EQ(error_text(Error("it broke")), "error: it broke\n");
  EXPECT_EQ(error_text(Error("it broke", "mend it")), "error: it broke\nhint: mend it\n");
}

TEST_F(ErrorTest, remembers_rank_step_and_operation_of_the_throw) {
  current_activity().rank = 3;
  current_activity().step = 0;
  std::string text;
  try {
    OperationScope saving("checkpoint.save");
    throw Error("no");
  } catch (const Error& error) {
    current_activity() = {};
    text = error_text(error);
  }
  EXPECT_EQ(text, "error: no (rank 3, step 0, in checkpoint.save)\n");
}

TEST_F(ErrorTest, scopes_nest_and_end) {
  EXPECT_EQ(current_activity().operation, "");
  {
    OperationScope outer("outer");
    {
      OperationScope inner("an inner operation with a name too long for a small string");
      EXPECT_EQ(Error("x").activity().operation.substr(0, 8), "an inner");
    }
    EXPECT_EQ(Error("x").activity().operation, "outer");
    try {
      OperationScope inner("inner");
      throw 1;
    } catch (int) {
    }
    EXPECT_EQ(current_activity().operation, "outer");
  }
  EXPECT_EQ(current_activity().operation, "");
}

TEST_F(ErrorTest, a_thread_has_an_activity_of_its_own) {
  OperationScope here("here");
  std::thread([] { EXPECT_EQ(Error("x").activity().operation, ""); }).join();
}

TEST_F(ErrorTest, kinds_have_their_exit_codes) {
  const auto code = [](const Error& error) { return error.exit_code(); };
  EXPECT_EQ(code(Error("x")), 1);
  EXPECT_EQ(code(ConfigError("x")), 2);
  EXPECT_EQ(code(PreflightError("x")), 3);
  EXPECT_EQ(code(CorruptError("x")), 1);
  EXPECT_EQ(code(FileError("x", ENOENT)), 1);
  EXPECT_EQ(code(Interrupted("x", 75)), 75);
}

TEST_F(ErrorTest, a_file_error_says_what_the_system_said) {
  EXPECT_STREQ(FileError("cannot open f", ENOENT).what(), "cannot open f: No such file or directory");
  EXPECT_STREQ(FileError("cannot open f", 0).what(), "cannot open f");
}

TEST_F(ErrorTest, a_broken_promise_names_the_place) {
  HYPERION_CHECK(1 + 1 == 2, "never thrown");
  try {
    HYPERION_CHECK(1 + 1 == 3, "sums are right");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sums are right (1 + 1 == 3 is false at"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("error_test.cc"), std::string::npos);
    EXPECT_NE(error.hint().find("bug"), std::string::npos);
  }
}

TEST_F(ErrorTest, nearest_finds_slips_and_nothing_else) {
  const std::array<std::string, 4> words = {"steps", "seed", "batch", "length"};
  const auto near = [&](const char* word) { return nearest(word, words.data(), words.data() + words.size()); };
  EXPECT_EQ(near("step"), "steps");
  EXPECT_EQ(near("stps"), "steps");
  EXPECT_EQ(near("lenght"), "length");
  EXPECT_EQ(near("batch"), "batch");
  EXPECT_EQ(near("optimizer"), "");
  EXPECT_EQ(near(""), "");
  EXPECT_EQ(nearest("x", words.data(), words.data()), "");
}

}  // namespace
}  // namespace hyperion::base

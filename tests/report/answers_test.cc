#include "hyperion/report/answers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "hyperion/base/error.h"

namespace hyperion::report {
namespace {

class AnswersFile : public ::testing::Test {
 protected:
  AnswersFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    run_ = ::mkdtemp(pattern.data());
  }
  ~AnswersFile() override { std::filesystem::remove_all(run_); }
  base::FileSystem& files_ = base::real_files();
  base::Path run_;
};

TEST_F(AnswersFile, comes_back_as_it_was_written) {
  EXPECT_FALSE(read_answers(files_, run_).has_value());
  write_answers(files_, run_, {7, 0.25, {{"1+1:", "2", "2", true}, {"<a>", "\"\n", "", std::nullopt}}});
  const auto back = read_answers(files_, run_);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step, 7);
  EXPECT_EQ(back->right, 0.25);
  ASSERT_EQ(back->samples.size(), 2u);
  EXPECT_EQ(back->samples[0].right, true);
  EXPECT_EQ(back->samples[1].answer, "\"\n");
  EXPECT_FALSE(back->samples[1].right.has_value());
}

TEST_F(AnswersFile, holds_any_bytes_a_model_may_say) {
  write_answers(files_, run_, {1, 0, {{"q", "\xff\x01", "", false}}});
  EXPECT_EQ(read_answers(files_, run_)->samples[0].right, false);
}

TEST_F(AnswersFile, that_is_damaged_is_named) {
  for (const char* text : {"{", "[]", "{\"step\": \"x\"}"}) {
    base::write_atomically(files_, run_ / "answers.json", text);
    EXPECT_THROW(read_answers(files_, run_), base::CorruptError) << text;
  }
}

}  // namespace
}  // namespace hyperion::report

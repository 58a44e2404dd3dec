// One test for each bug a user met.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class Mended : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags() + more;
  }
  std::filesystem::path run_folder(const std::string& name) { return scratch_.runs() / name; }
  Scratch scratch_;
};

TEST_F(Mended, a_diverged_run_fails_and_is_never_called_complete) {
  const auto done =
      run(scratch_, train("wild", {"--optim.lr=100", "--optim.clip=0", "--optim.rule=sgd", "--optim.warmup=0",
                                   "--optim.schedule=constant", "--checkpoint.every=1"}));
  EXPECT_EQ(done.code, 1) << done.out;
  EXPECT_NE(done.err.find("hint: "), std::string::npos) << done.err;
  EXPECT_EQ(testing::read_file(run_folder("wild") / "run.json").find("\"complete\""), std::string::npos);
}

TEST_F(Mended, a_damaged_record_is_told_of_and_does_not_stop_a_resume) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  testing::write_file(run_folder("a") / "run.json", "{\"a\":");
  const auto again = run(scratch_, {"resume", "a", "--steps", "8"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("run.json is not JSON"), std::string::npos) << again.err;
  EXPECT_NE(testing::read_file(run_folder("a") / "run.json").find("\"complete\""), std::string::npos);
}

TEST_F(Mended, a_run_whose_logs_were_cleared_away_goes_on) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  std::filesystem::remove_all(run_folder("a") / "logs");
  const auto again = run(scratch_, {"resume", "a", "--steps", "8"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(std::filesystem::exists(run_folder("a") / "logs/rank-0.log"));
}

TEST_F(Mended, a_resume_cannot_change_the_update_rule) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  const auto config = testing::read_file(run_folder("a") / "config.resolved.toml");
  EXPECT_EQ(run(scratch_, {"resume", "a", "--steps", "8", "--optim.rule=sgd"}).code, 2);
  EXPECT_EQ(testing::read_file(run_folder("a") / "config.resolved.toml"), config);
}

TEST_F(Mended, an_export_leaves_its_neighbours_alone) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  std::filesystem::create_directories(scratch_.path() / "out.partial");
  testing::write_file(scratch_.path() / "out.partial" / "keep", "mine");
  EXPECT_EQ(run(scratch_, {"export", "a", "--to", "out"}).code, 0);
  EXPECT_EQ(testing::read_file(scratch_.path() / "out.partial" / "keep"), "mine");
}

TEST_F(Mended, a_probe_never_writes_over_its_input) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  testing::write_file(scratch_.path() / "in.safetensors", "precious");
  EXPECT_EQ(run(scratch_, {"probe", "a", "--input", "in.safetensors", "--output", "./in.safetensors"}).code, 2);
  EXPECT_EQ(testing::read_file(scratch_.path() / "in.safetensors"), "precious");
}

}  // namespace
}  // namespace hyperion

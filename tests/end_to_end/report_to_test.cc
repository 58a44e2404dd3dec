// Files of other tools that a run writes while it trains: what `runs export` makes of its metrics afterwards, whatever
// happened between.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Program;
using testing::read_file;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class ReportTo : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags() + more;
  }
  // The bytes of the only file below `folder` whose name holds `part`.
  static std::string bytes_of(const fs::path& folder, const std::string& part) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && says(entry.path().filename().string(), part)) found.push_back(entry.path());
    EXPECT_EQ(found.size(), 1u) << part << " in " << folder;
    return found.size() == 1 ? read_file(found[0]) : "";
  }
  std::string exported(const std::string& name, const std::string& tool, const std::string& part) {
    const fs::path output = scratch_.path() / ("out-" + tool);
    fs::remove_all(output);
    const auto done = run(scratch_, {"runs", "export", name, "--to", tool, "--output", output});
    EXPECT_EQ(done.code, 0) << done.err;
    return bytes_of(output, part);
  }
  Scratch scratch_;
};

TEST_F(ReportTo, what_is_written_in_training_is_what_is_exported_afterwards_though_it_was_killed) {
  {
    Program killed(scratch_, train("a", {"--train.report_to=tensorboard,wandb,mlflow,prometheus", "--steps", "400"}));
    ASSERT_TRUE(killed.wait_for_text("step 13"));
    killed.signal(SIGKILL);
    killed.wait();
  }
  const auto resumed = run(scratch_, {"resume", "a", "--train.steps=24"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const fs::path folder = scratch_.runs() / "a";
  EXPECT_EQ(bytes_of(folder / "tb", "tfevents"), exported("a", "tensorboard", "tfevents"));
  EXPECT_EQ(read_file(folder / "a.prom"), exported("a", "prometheus", ".prom"));
  EXPECT_TRUE(says(read_file(folder / "a.prom"), "hyperion_train_steps_total{run=\"a\"} 24\n"));
  EXPECT_EQ(bytes_of(folder / "mlruns", "grad_norm"), exported("a", "mlflow", "grad_norm"));
  const std::string live = bytes_of(folder / "wandb", ".wandb"), after = exported("a", "wandb", ".wandb");
  const size_t but_the_exit = after.size() - 64;
  EXPECT_EQ(live.substr(0, but_the_exit), after.substr(0, but_the_exit));
  const auto removed = run(scratch_, {"runs", "rm", "a", "--yes"});
  EXPECT_EQ(removed.code, 0);
  EXPECT_FALSE(fs::exists(folder)) << removed.err;
}

TEST_F(ReportTo, is_tensorboard_unless_told_otherwise) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "2"})).code, 0);
  EXPECT_FALSE(bytes_of(scratch_.runs() / "a" / "tb", "tfevents").empty());
  ASSERT_EQ(run(scratch_, train("b", {"--steps", "2", "--train.report_to", "none"})).code, 0);
  EXPECT_FALSE(fs::exists(scratch_.runs() / "b" / "tb"));
  const auto refused = run(scratch_, train("c", {"--train.report_to", "tensorboard,clearml"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(says(refused.err, "train.report_to names \"clearml\"")) << refused.err;
  EXPECT_FALSE(fs::exists(scratch_.runs() / "c"));
}

TEST_F(ReportTo, export_says_what_it_cannot_do) {
  const Words output = {"--output", scratch_.path() / "out"};
  EXPECT_EQ(run(scratch_, Words{"runs", "export", "a", "--to", "tensorboard"} + output).code, 2);
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "2"})).code, 0);
  EXPECT_EQ(run(scratch_, Words{"runs", "export", "a", "--to", "clearml"} + output).code, 2);
  const auto twice = run(scratch_, Words{"runs", "export", "a", "a", "--to", "csv"} + output);
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(says(twice.err, "two runs are called a")) << twice.err;
  const auto tables = run(scratch_, Words{"runs", "export", "a", "--to", "csv"} + output);
  ASSERT_EQ(tables.code, 0) << tables.err;
  const std::string steps = read_file(scratch_.path() / "out" / "steps.csv");
  EXPECT_TRUE(steps.starts_with("run,step,loss,") && says(steps, "\na,2,")) << steps;
}

}  // namespace
}  // namespace hyperion

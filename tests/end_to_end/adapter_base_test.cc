// The weights that a run with an adapter is trained beside: kept while another run goes on, moves or goes; known by
// their content; and what is said where they are lost.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class AdapterBase : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_file(scratch_.path() / "recipe.toml",
                        "[train]\nsteps = 8\nbatch = 4\nlength = 20\n[eval]\nbatches = 1\n[optim]\nlr = 1e-2\nwarmup = "
                        "2\n[checkpoint]\nevery = 4\n");
    const Finished done = train("first", Words{"--model.width=32", "--model.heads=2", "--model.layers=1"});
    ASSERT_EQ(done.code, 0) << done.err;
  }
  Finished train(const std::string& name, const Words& flags, const std::map<std::string, std::string>& faults = {}) {
    return run(scratch_,
               Words{"train", scratch_.path() / "recipe.toml", "--run", name} + testing::text_data(scratch_) +
                   testing::device_flags() + flags,
               faults);
  }
  Finished adapt(const std::string& name, const std::string& from, const Words& more = {}) {
    return train(name, Words{"--model.from=" + from, "--lora.rank=2"} + more);
  }
  void adapt_until_killed(const std::string& name, const std::string& from) {
    const Finished killed =
        train(name, {"--model.from=" + from, "--lora.rank=2"}, {{"HYPERION_FAULTS", "train.step=kill@7"}});
    ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.err;
  }
  std::map<int64_t, std::string> losses(const std::string& name) { return testing::losses(scratch_.runs() / name); }
  Scratch scratch_;
};

TEST_F(AdapterBase, outlives_the_run_it_is_of) {
  ASSERT_EQ(adapt("whole", "first").code, 0);
  adapt_until_killed("cut", "first");
  ASSERT_EQ(adapt("second", "whole").code, 0);
  const std::string answer = run(scratch_, {"eval", "second", "--json"}).out;
  // Step 8 is not among the two it keeps.
  ASSERT_EQ(run(scratch_, {"resume", "first", "--steps", "20", "--checkpoint.best=false"}).code, 0);
  ASSERT_FALSE(fs::exists(scratch_.runs() / "first/checkpoints/step-8"));
  EXPECT_EQ(run(scratch_, {"eval", "cut"}).code, 0);
  ASSERT_EQ(run(scratch_, {"runs", "rename", "first", "elsewhere"}).code, 0);
  EXPECT_EQ(run(scratch_, {"eval", "cut"}).code, 0);
  ASSERT_EQ(run(scratch_, {"runs", "rm", "-y", "elsewhere"}).code, 0);
  const Finished resumed = run(scratch_, {"resume", "cut"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(says(resumed.err, "cut/base/")) << resumed.err;
  EXPECT_EQ(losses("cut"), losses("whole"));
  ASSERT_EQ(run(scratch_, {"runs", "rm", "-y", "whole"}).code, 0);
  EXPECT_EQ(run(scratch_, {"eval", "second", "--json"}).out, answer);
  ASSERT_EQ(run(scratch_, {"runs", "rename", "second", "third"}).code, 0);
  EXPECT_EQ(run(scratch_, {"resume", "third", "--steps", "9"}).code, 0);
  ASSERT_EQ(run(scratch_, {"runs", "rm", "-y", "third"}).code, 0);
  EXPECT_FALSE(fs::exists(scratch_.runs() / "third"));
}

TEST_F(AdapterBase, is_what_the_named_run_had_when_this_one_began) {
  ASSERT_EQ(adapt("tuned", "first", {"--or-resume"}).code, 0);
  const std::string settings = testing::read_file(scratch_.runs() / "tuned/config.resolved.toml");
  EXPECT_TRUE(says(settings, "runs/first/checkpoints/step-8\"")) << settings;
  ASSERT_EQ(run(scratch_, {"resume", "first", "--steps", "9"}).code, 0);
  const Finished on = adapt("tuned", "first", {"--or-resume", "--steps", "9"});
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_FALSE(says(on.err, "goes on with model.from")) << on.err;
  const Finished page = run(scratch_, {"report", "tuned"});
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "tuned/report.html"), "first step-8")) << page.err;
}

TEST_F(AdapterBase, that_is_lost_is_named_with_both_hashes_and_found_again_by_its_content) {
  const std::string folder = scratch_.path() / "exported", moved = scratch_.path() / "moved";
  ASSERT_EQ(run(scratch_, {"export", "first", "--to", folder}).code, 0);
  adapt_until_killed("tuned", folder);
  fs::rename(folder, moved);
  for (const Words& words : {Words{"resume", "tuned"}, Words{"eval", "tuned"}}) {
    const Finished lost = run(scratch_, words);
    EXPECT_EQ(lost.code, 1);
    EXPECT_TRUE(says(testing::error_line(lost), "was trained beside " + folder + ", which cannot be opened"))
        << lost.err;
    EXPECT_TRUE(says(testing::hint_line(lost), "hyperion resume tuned --model.from=PATH")) << lost.err;
  }
  fs::copy(moved, folder);
  testing::write_file(folder + "/model.safetensors", testing::read_file(folder + "/model.safetensors") + "x");
  const std::string changed = testing::error_line(run(scratch_, {"resume", "tuned"}));
  const size_t now = changed.find("whose weights are others now: "), was = changed.find(" instead of ");
  ASSERT_TRUE(now != changed.npos && was != changed.npos) << changed;
  EXPECT_EQ(changed.substr(was + 12).find_first_not_of("0123456789abcdef\n"), std::string::npos) << changed;
  const std::string other = scratch_.path() / "other";
  fs::rename(folder, other);
  const Finished wrong = run(scratch_, {"resume", "tuned", "--model.from=" + other});
  EXPECT_TRUE(says(testing::error_line(wrong), "was trained beside " + folder + ", and not " + other)) << wrong.err;
  EXPECT_TRUE(says(testing::hint_line(wrong), "at " + folder)) << wrong.err;
  const Finished found = run(scratch_, {"resume", "tuned", "--model.from=" + moved});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(run(scratch_, {"eval", "tuned"}).code, 0);
}

TEST_F(AdapterBase, of_a_complete_run_may_move_with_its_data) {
  const std::string folder = scratch_.path() / "exported", moved = scratch_.path() / "moved";
  ASSERT_EQ(run(scratch_, {"export", "first", "--to", folder}).code, 0);
  ASSERT_EQ(adapt("tuned", folder).code, 0);
  const std::string measured = run(scratch_, {"eval", "tuned", "--json"}).out;
  fs::rename(folder, moved);
  const std::string words = scratch_.path() / "words.txt", others = scratch_.path() / "others.txt";
  fs::rename(words, others);
  EXPECT_NE(run(scratch_, {"eval", "tuned"}).code, 0);
  const std::string other = scratch_.path() / "other";
  ASSERT_EQ(run(scratch_, {"resume", "first", "--steps", "9", "--data.path=" + others}).code, 0);
  ASSERT_EQ(run(scratch_, {"export", "first", "--to", other}).code, 0);
  const Finished wrong = run(scratch_, {"resume", "tuned", "--model.from=" + other, "--data.path=" + others});
  EXPECT_NE(wrong.code, 0);
  EXPECT_TRUE(says(testing::error_line(wrong), "instead of")) << wrong.err;
  const Finished told = run(scratch_, {"resume", "tuned", "--model.from=" + moved, "--data.path=" + others});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_TRUE(says(told.err, "finds its base at " + moved)) << told.err;
  EXPECT_EQ(run(scratch_, {"eval", "tuned", "--json"}).out, measured);
  EXPECT_EQ(run(scratch_, {"export", "tuned", "--to", "merged"}).code, 0);
}

TEST_F(AdapterBase, is_not_needed_where_all_weights_are_trained) {
  const Finished killed = train("all", {"--model.from=first"}, {{"HYPERION_FAULTS", "train.step=kill@7"}});
  ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.err;
  ASSERT_EQ(run(scratch_, {"runs", "rm", "-y", "first"}).code, 0);
  EXPECT_FALSE(fs::exists(scratch_.runs() / "all/base"));
  EXPECT_EQ(run(scratch_, {"resume", "all"}).code, 0);
  EXPECT_EQ(run(scratch_, {"eval", "all"}).code, 0);
}

}  // namespace
}  // namespace hyperion

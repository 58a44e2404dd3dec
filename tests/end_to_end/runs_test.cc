// `hyperion runs`: what is removed, renamed and followed, and what never is.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

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

class Runs : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags() + more;
  }
  void make(const std::string& name) {
    const Finished done = run(scratch_, train(name, {"--steps", "4"}));
    ASSERT_EQ(done.code, 0) << done.err;
  }
  fs::path folder(const std::string& name) { return scratch_.runs() / name; }
  Scratch scratch_;
};

TEST_F(Runs, rm_removes_those_named_and_nothing_else) {
  for (const char* name : {"a", "b", "c"}) make(name);
  const Finished done = run(scratch_, {"runs", "rm", "a", "b", "--yes"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_FALSE(fs::exists(folder("a")) || fs::exists(folder("b")));
  EXPECT_TRUE(fs::exists(folder("c") / "run.json"));
}

TEST_F(Runs, rm_asks_and_a_wrong_name_removes_nothing) {
  make("a");
  const auto before = testing::tree(scratch_.runs());
  const Finished unasked = run(scratch_, {"runs", "rm", "a"});
  EXPECT_EQ(unasked.code, 2);
  EXPECT_TRUE(says(unasked.err, "hint: add --yes")) << unasked.err;
  EXPECT_EQ(run(scratch_, {"runs", "rm", "a", "b", "--yes"}).code, 2);
  EXPECT_TRUE(testing::tree(scratch_.runs()) == before);
}

TEST_F(Runs, rm_leaves_what_is_no_runs) {
  make("a");
  fs::create_directories(folder("bench-1"));
  testing::write_file(folder("bench-1") / "result.json", "{}");
  EXPECT_EQ(run(scratch_, {"runs", "rm", "bench-1", "--yes"}).code, 2);
  EXPECT_EQ(run(scratch_, {"runs", "rm", scratch_.path(), "--yes"}).code, 2);
  testing::write_file(folder("a") / "thesis.tex", "mine");
  fs::create_directory_symlink(folder("bench-1"), folder("a") / "tokenizer");
  const Finished done = run(scratch_, {"runs", "rm", "a", "--yes"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.err, "stays, for what is not the run's: thesis.tex")) << done.err;
  EXPECT_EQ(done.out, "removed run a\n") << "its folder was not";
  EXPECT_EQ(testing::read_file(folder("a") / "thesis.tex"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder("a")), {}), 1);
  EXPECT_EQ(testing::read_file(folder("bench-1") / "result.json"), "{}");
}

TEST_F(Runs, one_that_is_trained_is_neither_removed_nor_renamed) {
  testing::Program running(scratch_, train("busy", {"--steps", "100000", "--eval.every=0"}));
  ASSERT_TRUE(running.wait_for_text("step 3/"));
  for (const Words& words : {Words{"runs", "rm", "busy", "--yes"}, Words{"runs", "rename", "busy", "idle"}}) {
    const Finished refused = run(scratch_, words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(says(refused.err, "run busy is being trained by another process")) << refused.err;
  }
  EXPECT_TRUE(fs::exists(folder("busy") / "run.json"));
}

TEST_F(Runs, rename_moves_a_run_that_resumes_under_its_new_name) {
  make("a");
  make("taken");
  const Finished refused = run(scratch_, {"runs", "rename", "a", "taken"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(says(refused.err, "exists already")) << refused.err;
  EXPECT_TRUE(says(refused.err, "choose another name, or remove taken first: hyperion runs rm taken")) << refused.err;
  EXPECT_EQ(run(scratch_, {"runs", "rename", "a", "../b"}).code, 2);
  ASSERT_EQ(run(scratch_, {"runs", "rename", "a", "b"}).code, 0);
  EXPECT_FALSE(fs::exists(folder("a")));
  EXPECT_EQ(nlohmann::json::parse(run(scratch_, {"runs", "show", "b", "--json"}).out)["name"], "b");
  const Finished resumed = run(scratch_, {"resume", "b", "--steps", "6"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(Runs, tail_tells_the_last_steps_and_validations) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "8"})).code, 0);
  const Finished done = run(scratch_, {"runs", "tail", "a", "-n", "4"});
  ASSERT_EQ(done.code, 0) << done.err;
  Words lines;
  std::istringstream text(done.out);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4u) << done.out;
  EXPECT_TRUE(lines[0].starts_with("step 6  validation loss ")) << done.out;
  EXPECT_TRUE(lines[1].starts_with("step 7/8  loss ")) << done.out;
  EXPECT_TRUE(lines[3].starts_with("step 8  validation loss ")) << done.out;
  const Finished json = run(scratch_, {"runs", "tail", "a", "-n", "1", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["split"], "validation") << json.out;
}

TEST_F(Runs, tail_follows_until_the_run_ends) {
  testing::Program running(scratch_, train("a", {"--steps", "100000", "--eval.every=0"}));
  ASSERT_TRUE(running.wait_for_text("step 3/"));
  testing::Program tail(scratch_, {"runs", "tail", "a", "-n", "0", "-f"});
  ASSERT_TRUE(tail.wait_for_text("tok/s"));
  running.signal(SIGINT);
  EXPECT_EQ(running.wait().code, 130);
  ASSERT_TRUE(tail.ends_within(30));
  const Finished told = tail.wait();
  EXPECT_EQ(told.code, 0) << told.err;
  const auto last = testing::losses(folder("a")).rbegin()->first;
  EXPECT_TRUE(says(told.out, "step " + std::to_string(last) + "/100000  loss ")) << last;
}

}  // namespace
}  // namespace hyperion

// How a run stands, as `hyperion runs` tells it: also of one that was killed, that a resume could not go on with, or
// whose files are damaged.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::Program;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class RunStanding : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name, "--model.layers=1"} +
           testing::text_data(scratch_) + testing::device_flags() + more;
  }
  void make(const std::string& name) {
    const Finished done = run(scratch_, train(name, {"--steps", "5"}));
    ASSERT_EQ(done.code, 0) << done.err;
  }
  void kill_in_step_7(const std::string& name) {
    ASSERT_EQ(run(scratch_, train(name), {{"HYPERION_FAULTS", "train.step=kill@7"}}).code, 128 + SIGKILL);
  }
  // Of `runs ls`: the line of that run.
  std::string line_of(const std::string& name) {
    const std::string table = "\n" + run(scratch_, {"runs", "ls"}).out;
    const size_t at = table.find("\n" + name + " ");
    return at == table.npos ? "" : table.substr(at + 1, table.find('\n', at + 1) - at - 1);
  }
  std::string status(const std::string& name) {
    return nlohmann::json::parse(run(scratch_, {"runs", "show", name, "--json"}).out)["status"];
  }
  fs::path folder(const std::string& name) { return scratch_.runs() / name; }
  Scratch scratch_;
};

TEST_F(RunStanding, complete_stays_so_where_a_resume_takes_no_step) {
  make("a");
  const std::string record = testing::read_file(folder("a") / "run.json");
  EXPECT_EQ(run(scratch_, {"resume", "a"}).code, 0);
  EXPECT_EQ(testing::read_file(folder("a") / "run.json"), record);
  for (const std::string fault : {"train.prepare=throw", "train.step=throw", "train.prepare=kill", "train.step=kill"}) {
    EXPECT_NE(run(scratch_, {"resume", "a", "--steps", "9"}, {{"HYPERION_FAULTS", fault}}).code, 0) << fault;
    EXPECT_EQ(status("a"), fault == "train.step=kill" ? "killed" : "complete") << fault;
  }
  EXPECT_EQ(run(scratch_, {"resume", "a"}).code, 0);
  EXPECT_EQ(status("a"), "complete");
  EXPECT_NE(run(scratch_, {"resume", "a", "--steps", "12"}, {{"HYPERION_FAULTS", "train.step=throw@2"}}).code, 0);
  EXPECT_EQ(status("a"), "failed");
}

TEST_F(RunStanding, killed_is_told_by_ls_show_and_tail) {
  kill_in_step_7("dead");
  EXPECT_TRUE(says(line_of("dead"), " killed ")) << line_of("dead");
  EXPECT_TRUE(says(run(scratch_, {"runs", "show", "dead"}).out, "killed\n"));
  Program tail(scratch_, {"runs", "tail", "dead", "-f", "-n", "2"});
  ASSERT_TRUE(tail.ends_within(30));
  const Finished told = tail.wait();
  EXPECT_TRUE(says(told.out, "step 6/24")) << told.out;
  EXPECT_TRUE(says(told.err, "run dead is not being trained: killed; hyperion resume dead goes on with it"))
      << told.err;
  EXPECT_EQ(run(scratch_, {"resume", "dead"}).code, 0);
  EXPECT_TRUE(says(line_of("dead"), " complete ")) << line_of("dead");
}

TEST_F(RunStanding, a_run_without_its_lock_file_is_still_one_that_is_trained) {
  Program running(scratch_, train("busy", {"--steps", "100000", "--eval.every=0"}));
  ASSERT_TRUE(running.wait_for_text("step 3/"));
  fs::remove(folder("busy") / ".lock");
  EXPECT_EQ(status("busy"), "running");
  for (const Words& words : {Words{"resume", "busy"}, Words{"runs", "rm", "-y", "busy"}}) {
    const Finished refused = run(scratch_, words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(says(refused.err, "run busy is being trained by another process")) << refused.err;
  }
  running.signal(SIGTERM);
  const Finished done = running.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_FALSE(says(done.err, "stopping: writing a checkpoint")) << "said by the signal's own line: " << done.err;
}

TEST_F(RunStanding, a_limit_on_cpu_time_leaves_a_checkpoint) {
  Program running(scratch_, train("limited", {"--steps", "100000", "--eval.every=0", "--checkpoint.every=0"}));
  ASSERT_TRUE(running.wait_for_text("step 3/"));
  running.signal(SIGXCPU);
  const Finished done = running.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_EQ(status("limited"), "stopped");
  EXPECT_FALSE(fs::is_empty(folder("limited") / "checkpoints"));
}

TEST_F(RunStanding, a_damaged_record_is_listed_with_what_is_wrong) {
  make("a");
  for (const char* name : {"empty", "other", "none"}) fs::copy(folder("a"), folder(name), fs::copy_options::recursive);
  testing::write_file(folder("empty") / "run.json", "");
  testing::write_file(folder("other") / "run.json", "{\"name\": 3}");
  fs::remove(folder("none") / "run.json");
  const std::string table = run(scratch_, {"runs", "ls"}).out;
  for (const std::string part : {"empty/run.json is empty; ", "hyperion resume empty writes it anew",
                                 "other/run.json is not a run record: its name is not text"})
    EXPECT_TRUE(says(table, part)) << table;
  for (const char* name : {"empty", "other"}) EXPECT_TRUE(says(line_of(name), " damaged ")) << table;
  EXPECT_TRUE(says(line_of("none"), " killed ")) << table;
  EXPECT_FALSE(says(table, "json.exception")) << table;
  EXPECT_EQ(nlohmann::json::parse(run(scratch_, {"runs", "ls", "--json"}).out).size(), 4u);
  const Finished shown = run(scratch_, {"runs", "show", "empty"});
  EXPECT_TRUE(says(testing::hint_line(shown), "hyperion resume empty")) << shown.err;
  ASSERT_EQ(run(scratch_, {"resume", "empty"}).code, 0);
  EXPECT_TRUE(says(line_of("empty"), " complete "));
}

TEST_F(RunStanding, a_line_of_the_metrics_that_is_no_record_is_named_in_plain_words) {
  make("a");
  testing::write_file(folder("a") / "metrics.jsonl", "{\"step\": 1}\n");
  for (const Words& words : {Words{"report", "a"}, Words{"runs", "tail", "a"}}) {
    const std::string error = testing::error_line(run(scratch_, words));
    EXPECT_TRUE(says(error, "metrics.jsonl is no record: a member is missing")) << error;
    EXPECT_FALSE(says(error, "json.exception")) << error;
  }
}

TEST_F(RunStanding, a_giant_in_place_of_a_file_is_refused_before_it_is_read) {
  make("a");
  for (const char* file : {"model.json", "metrics.jsonl", "run.json"}) {
    SCOPED_TRACE(file);
    fs::remove_all(folder("giant"));
    fs::copy(folder("a"), folder("giant"), fs::copy_options::recursive);
    fs::resize_file(folder("giant") / file, uint64_t{5} << 30);
    const Finished done = run(scratch_, {"report", "giant"});
    EXPECT_EQ(done.code, 1);
    EXPECT_TRUE(says(testing::error_line(done), std::string(file) + ", which is longer than")) << done.err;
  }
  fs::resize_file(scratch_.path() / "tiny.toml", uint64_t{5} << 30);
  const Finished compared = run(scratch_, {"compare", scratch_.path() / "tiny.toml", scratch_.path() / "tiny.toml"});
  EXPECT_TRUE(says(testing::error_line(compared), "tiny.toml, which is longer than")) << compared.err;
}

TEST_F(RunStanding, what_a_terminal_would_obey_is_written_out) {
  make("a");
  auto record = nlohmann::json::parse(testing::read_file(folder("a") / "run.json"));
  record["status"] = "failed", record["failure"] = "x\x1b[2J", record["recipe"] = "y\x1b]0;z\x07";
  testing::write_file(folder("a") / "run.json", record.dump());
  fs::rename(folder("a"), folder("b\x1b[31m"));
  for (const std::string& text :
       {run(scratch_, {"runs", "ls"}).out, run(scratch_, {"runs", "show", "b\x1b[31m"}).out}) {
    EXPECT_EQ(text.find('\x1b'), text.npos) << text;
    EXPECT_TRUE(says(text, "b\\x1b[31m")) << text;
  }
}

TEST_F(RunStanding, rm_takes_a_run_once_however_often_it_is_named) {
  make("a");
  const Finished done = run(scratch_, {"runs", "rm", "a", "a/", folder("a"), "-y"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_FALSE(fs::exists(folder("a")));
}

TEST_F(RunStanding, rename_brings_the_report_along_and_takes_a_run_with_a_damaged_record) {
  make("a");
  ASSERT_EQ(run(scratch_, {"runs", "rename", "a/", "b"}).code, 0);
  const std::string page = testing::read_file(folder("b") / "report.html");
  EXPECT_TRUE(says(page, "<title>b")) << page.substr(0, 400);
  testing::write_file(folder("b") / "run.json", "{");
  EXPECT_EQ(run(scratch_, {"runs", "rename", "b", "c"}).code, 0);
  EXPECT_TRUE(fs::exists(folder("c") / "checkpoints"));
}

TEST_F(RunStanding, a_schedule_that_ended_before_the_resume_is_said_to_have_ended) {
  make("a");
  const Finished done = run(scratch_, {"resume", "a", "--steps", "6", "--optim.decay_steps=4"});
  EXPECT_TRUE(says(done.err, "the schedule has ended already, at step 4: ")) << done.err;
}

}  // namespace
}  // namespace hyperion

// `hyperion compare A B` of training runs: settings, figures and curves side by side.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::read_file;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::write_file;
using testing::operator+;
using Words = std::vector<std::string>;

class CompareRuns : public ::testing::Test {
 protected:
  CompareRuns() {
    recipe_ = testing::tiny_recipe(scratch_).string();
    train("fast", {"--optim.lr=0.01", "--steps", "6"});
    train("slow", {"--optim.lr=0.001", "--steps", "4"});
  }
  void train(const std::string& name, const Words& flags) {
    const auto done = run(scratch_, Words{"train", recipe_, "--run", name, "--optim.warmup=0", "--eval.every=2"} +
                                        testing::device_flags() + flags);
    ASSERT_EQ(done.code, 0) << done.err;
  }
  Finished compare(const Words& words) { return run(scratch_, Words{"compare"} + words); }
  std::string path(const std::string& name) const { return (scratch_.runs() / name).string(); }
  // Of what metrics.jsonl says of the validations.
  double best_validation(const std::string& name) {
    double best = 1e9;
    std::istringstream lines(read_file(scratch_.runs() / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.value("split", "") == "validation")
        best = std::min(best, json["loss"].get<double>());
    return best;
  }
  Scratch scratch_;
  std::string recipe_;
};

TEST_F(CompareRuns, the_page_replaces_no_pipe_and_no_file_of_another_kind) {
  namespace fs = std::filesystem;
  const fs::path pipe = scratch_.path() / "pipe.html", target = scratch_.path() / "target.html";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string metrics = (scratch_.runs() / "fast/metrics.jsonl").string(), before = read_file(metrics);
  for (const std::string& place : {pipe.string(), scratch_.path().string(), metrics, std::string("/dev/null")})
    EXPECT_EQ(compare({"fast", "slow", "--html", place}).code, 2) << place;
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(read_file(metrics), before);
  write_file(target, "");
  fs::create_symlink(target, scratch_.path() / "link.html");
  ASSERT_EQ(compare({"fast", "slow", "--html", (scratch_.path() / "link.html").string()}).code, 0);
  EXPECT_TRUE(says(read_file(target), "<html"));
}

TEST_F(CompareRuns, shows_the_steps_that_all_have) {
  const std::string table = compare({"fast", "slow"}).out;
  const std::string training = table.substr(table.find("training loss, its mean"));
  EXPECT_FALSE(says(training.substr(0, training.find("validation loss")), "\n6 ")) << table;
}

TEST_F(CompareRuns, settings_that_differ_figures_and_curves_stand_side_by_side) {
  for (const Words& names : {Words{"fast", "slow"}, Words{path("fast"), path("slow")}}) {
    const auto done = compare(names);
    ASSERT_EQ(done.code, 0) << done.err;
    for (const char* part : {"optim.lr", "0.01", "0.001", "train.steps", "validation loss, best", "tokens a second",
                             "training loss, its mean since the row above", "validation loss\n", "complete"})
      EXPECT_TRUE(says(done.out, part)) << part << "\n" << done.out;
    EXPECT_FALSE(says(done.out, "train.seed")) << "the same in both\n" << done.out;
  }
  const auto found = nlohmann::json::parse(compare({"fast", "slow", "--json"}).out);
  EXPECT_EQ(found["runs"][0]["steps"], 6);
  EXPECT_EQ(found["runs"][1]["steps"], 4);
  EXPECT_EQ(found["runs"][0]["best_validation_loss"], best_validation("fast"));
  ASSERT_EQ(found["settings"].size(), 2u) << found;
  EXPECT_EQ(found["settings"][1]["name"], "optim.lr");
  EXPECT_EQ(found["settings"][1]["values"], (Words{"0.01", "0.001"}));
}

TEST_F(CompareRuns, a_page_has_a_line_of_each_run_in_every_plot) {
  train("third", {"--optim.lr=0.003", "--steps", "4"});
  const std::string page = (scratch_.path() / "compared.html").string();
  const auto done = compare({"fast", "slow", "third", "--html", page});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.out, "page: " + page)) << done.out;
  const std::string html = read_file(page);
  for (const char* part : {"<svg", "Training loss", "Validation loss", "Learning rate", "Settings that differ",
                           "optim.lr", "fast", "slow", "third"})
    EXPECT_TRUE(says(html, part)) << part;
}

TEST_F(CompareRuns, what_cannot_be_compared_is_told) {
  const auto refused = [&](const Words& words, const std::string& why) {
    const auto done = compare(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_TRUE(says(done.err, why)) << done.err;
    EXPECT_TRUE(says(done.err, "hint: ")) << done.err;
  };
  refused({"fast", "slw"}, "did you mean slow?");
  refused({"fst", "other"}, "did you mean fast?");
  refused({"nothing-like-it", "other"}, "no run called \"nothing-like-it\"");
  refused({"fast"}, "nothing to compare fast with");
  refused({"fast", "fast"}, "is named twice");
  refused({"fast", "slow", "--fail-over", "3%"}, "--fail-over judges results of a bench");
  write_file(scratch_.path() / "bench.json", "{}");
  refused({"fast", (scratch_.path() / "bench.json").string()},
          "bench.json is a result of a bench: they cannot be compared");
  const auto metrics = scratch_.runs() / "slow/metrics.jsonl";
  const std::string good = read_file(metrics);
  write_file(metrics, "not a record\n" + good);
  const auto damaged = compare({"fast", "slow"});
  EXPECT_NE(damaged.code, 0);
  EXPECT_TRUE(says(damaged.err, "line 1 of")) << damaged.err;
  EXPECT_TRUE(says(damaged.err, "slow/metrics.jsonl")) << damaged.err;
  write_file(metrics, "");
  refused({"fast", "slow"}, "run slow cannot be compared");
  std::filesystem::remove(metrics);
  refused({"fast", "slow"}, "metrics.jsonl is not there");
}

}  // namespace
}  // namespace hyperion

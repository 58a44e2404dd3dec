// The page of a run: there while it runs and at any end, and made anew on request.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class Report : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags() + more;
  }
  std::filesystem::path file(const std::string& name) { return scratch_.runs() / name / "report.html"; }
  std::string page(const std::string& name) { return testing::read_file(file(name)); }
  Scratch scratch_;
};

TEST_F(Report, is_there_at_any_end) {
  EXPECT_EQ(run(scratch_, train("stopped"), {{"HYPERION_FAULTS", "train.step=interrupt@9"}}).code, 130);
  EXPECT_TRUE(says(page("stopped"), "It was stopped after step 9 of 24; hyperion resume stopped goes on with it."));
  EXPECT_EQ(run(scratch_, train("wild", {"--optim.lr=100", "--optim.clip=0", "--optim.rule=sgd", "--optim.warmup=0",
                                         "--optim.schedule=constant"}))
                .code,
            1);
  EXPECT_TRUE(says(page("wild"), "It failed after step ")) << page("wild").substr(0, 200);
  EXPECT_EQ(run(scratch_, {"resume", "stopped"}).code, 0);
  EXPECT_FALSE(says(page("stopped"), "class=\"state\">"));
}

TEST_F(Report, of_a_running_run_says_so_and_of_a_killed_one_is_made_anew) {
  // On a GPU a step's figures are read one step later.
  const Words killed{"train", testing::tiny_recipe(scratch_), "--run", "killed", "--device", "cpu"};
  EXPECT_EQ(run(scratch_, killed, {{"HYPERION_FAULTS", "train.step=kill@9"}}).code, 128 + SIGKILL);
  EXPECT_TRUE(says(page("killed"), "It is being trained: step 6 of 24 on 20"));
  std::filesystem::remove(file("killed"));
  const Finished made = run(scratch_, {"report", "killed"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "report: " + file("killed").string() + "\n");
  EXPECT_TRUE(says(page("killed"), "It ended without a word after step 8 of 24: killed, or its machine stopped"));

  testing::Program running(scratch_, train("running", {"--steps", "100000", "--eval.every=0"}));
  ASSERT_TRUE(running.wait_for_text("step 3/"));
  ASSERT_EQ(run(scratch_, {"report", "running"}).code, 0);
  EXPECT_TRUE(says(page("running"), "It is being trained: step "));
}

TEST_F(Report, made_anew_is_the_page_that_was_written) {
  ASSERT_EQ(run(scratch_, train("whole")).code, 0);
  const std::string before = page("whole");
  EXPECT_TRUE(says(before, "Questions and answers"));
  std::filesystem::remove(file("whole"));
  ASSERT_EQ(run(scratch_, {"report", "whole"}).code, 0);
  const std::string after = page("whole");
  const std::string settings = "<h2>Settings</h2>";  // they now come from the run's own file
  EXPECT_EQ(after.substr(0, after.find(settings)), before.substr(0, before.find(settings)));
  const Finished none = run(scratch_, {"report", "whol"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "did you mean whole?")) << none.err;
}

TEST_F(Report, folds_defaults_away_behind_machine_and_checkpoints) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  const std::string html = page("a");
  const size_t machine = html.find("<h2>Environment</h2>"), checkpoints = html.find("<h2>Checkpoints</h2>"),
               settings = html.find("<h2>Settings</h2>"), folded = html.find("<details>");
  ASSERT_NE(folded, html.npos);
  EXPECT_TRUE(machine < checkpoints && checkpoints < settings && settings < folded);
  EXPECT_TRUE(says(html.substr(settings, folded - settings), "<td>dropout</td>"));
  EXPECT_FALSE(says(html.substr(settings, folded - settings), "<td>beta2</td>"));
  EXPECT_TRUE(says(html.substr(folded), "<td>beta2</td>"));
}

TEST_F(Report, of_runs_and_benches_says_what_their_files_say) {
  for (const char* name : {"a", "b"}) ASSERT_EQ(run(scratch_, train(name, {"--steps", "4", "--eval.every=2"})).code, 0);
  const auto result = scratch_.path() / "train.json", out = scratch_.path() / "all.md";
  const auto write_result = [&](const std::string& value) {
    testing::write_file(result,
                        R"({"bench": "train", "device_name": "a | b", "settings": ["train.batch=8"], "figures": [
      {"name": "tiny graph step", "unit": "ms", "better": "lower", "low": 10, "high": 14, "value": )" +
                            value + "}]}");
  };
  const auto report = [&](const std::filesystem::path& output) {
    const auto done = run(scratch_, {"report", "a", "b", result, "--output", output});
    EXPECT_EQ(done.code, 0) << done.err;
    return testing::read_file(output);
  };
  write_result("12.5");
  const std::string before = report(out);
  EXPECT_TRUE(says(before, "| tiny graph step | 12.5 | ms | 16.0% |")) << before;
  EXPECT_TRUE(says(before, "On a \\| b, with train.batch=8.")) << before;
  EXPECT_TRUE(says(before, "2 training runs, 1 result of benches")) << before;
  EXPECT_TRUE(says(before, "| figure | a | b |")) << before;
  write_result("25");
  auto metrics = testing::read_file(scratch_.runs() / "b" / "metrics.jsonl");
  const size_t last = metrics.rfind("\"split\":\"validation\",\"loss\":") + 29, end = metrics.find(',', last);
  metrics.replace(last, end - last, "7.654321");
  testing::write_file(scratch_.runs() / "b" / "metrics.jsonl", metrics);
  const std::string after = report(out);
  EXPECT_TRUE(says(after, "| tiny graph step | 25 | ms |") && says(after, "7.6543")) << after;
  EXPECT_FALSE(says(before, "7.6543"));
  const std::string page = report(scratch_.path() / "all.html");
  EXPECT_TRUE(says(page, "<svg") && says(page, "tiny graph step") && says(page, "7.6543"));
}

TEST_F(Report, as_pdf_is_printed_by_chromium_where_there_is_one) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "2"})).code, 0);
  const auto bin = scratch_.path() / "bin";
  std::filesystem::create_directory(bin);
  const auto stand_in = [&](const std::string& script) {  // of Chromium
    testing::write_file(bin / "chromium",
                        "#!/bin/sh\nfor word; do case $word in --print-to-pdf=*) out=${word#*=} ;; file://*) "
                        "page=${word#file://} ;; esac; done\n" +
                            script);
    std::filesystem::permissions(bin / "chromium", std::filesystem::perms::owner_all);
    return std::map<std::string, std::string>{{"PATH", bin.string() + ":" + std::getenv("PATH")}};
  };
  const auto good = stand_in("{ echo %PDF-1.4; cat \"$page\"; } > \"$out\"");
  const auto own = run(scratch_, {"report", "a", "--to", "pdf"}, good);
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, "report: " + (scratch_.runs() / "a/report.pdf").string() + "\n");
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "a/report.pdf"), "<h2>Settings</h2>"));
  EXPECT_EQ(run(scratch_, {"report", "a", "a", "--to", "pdf"}, good).code, 2) << "named twice";
  EXPECT_EQ(run(scratch_, {"report", "a", "--to", "pdf", "--output", "x.md"}, good).code, 2);
  const auto bad = run(scratch_, {"report", "a", "--output", (scratch_.path() / "x.pdf").string()},
                       stand_in("echo no display >&2; exit 4"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(says(bad.err, "made no PDF (exit code 4): no display")) << bad.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "x.pdf"));
  const auto none = run(scratch_, {"report", "a", "--to", "pdf"}, {{"PATH", scratch_.path().string()}});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "apt-get install chromium")) << none.err;
  const auto markdown = run(scratch_, {"report", "a", "--to", "md"});
  ASSERT_EQ(markdown.code, 0) << markdown.err;
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "a/report.md"), "## "));
}

TEST_F(Report, of_several_refuses_what_it_cannot_write) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "2"})).code, 0);
  const auto unnamed = run(scratch_, {"report", "a", "a"});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_TRUE(says(unnamed.err, "add --to html, md or pdf")) << unnamed.err;
  const auto pdf = run(scratch_, {"report", "a", "--output", scratch_.path() / "x.doc"});
  EXPECT_EQ(pdf.code, 2);
  EXPECT_TRUE(says(pdf.err, "none of .html, .md and .pdf")) << pdf.err;
  EXPECT_EQ(run(scratch_, {"report", "a", "nothing", "--output", scratch_.path() / "x.md"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "x.md"));
}

}  // namespace
}  // namespace hyperion

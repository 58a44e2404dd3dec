// What is answered at which address, and what readers are told, of runs that grow, go and come.
#include "hyperion/dash/site.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/dash/support_run.h"

namespace hyperion::dash {
namespace {

using Json = nlohmann::json;
using testing::append;
using testing::begin_run;
using testing::write_steps;

class Page : public ::testing::Test {
 protected:
  Page()
      : site_({.folders = [this] { return base::real_files().list(runs()); },
               .status = [](const auto& record) { return record.status; }}) {}
  base::Path runs() { return folder_ / "runs"; }
  base::Path run(const std::string& name) { return runs() / name; }

  web::Reply get(std::vector<std::string> path, std::map<std::string, std::string> query = {}) {
    return site_.answer({std::move(path), std::move(query)});
  }
  Json json(std::vector<std::string> path, std::map<std::string, std::string> query = {}) {
    const auto reply = get(std::move(path), std::move(query));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body);
  }
  // All events until nothing is new.
  std::string tick() {
    std::string told;
    while (site_.tick(true, [&](const std::string& event) { told += event; }) < std::chrono::milliseconds(100)) {
    }
    return told;
  }
  Json curves(const std::string& name, std::map<std::string, std::string> query = {}) {
    return json({"api", "run", name, "curves"}, std::move(query));
  }

  base::test::TestFolder folder_;
  Site site_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST_F(Page, has_its_own_files_and_no_others) {
  EXPECT_TRUE(get({}).body.starts_with("<!doctype html>"));
  for (const char* name : {"app.js", "charts.js", "panels.js", "events.js"})
    EXPECT_EQ(get({name}).type, "text/javascript; charset=utf-8");
  EXPECT_EQ(get({"style.css"}).status, 200);
  for (const char* name : {"site.cc", "..", "", "etc"}) EXPECT_EQ(get({name}).status, 404) << name;
}

TEST_F(Page, lists_runs_newest_first_and_says_which_are_damaged) {
  begin_run(run("old"), "2026-01-01T00:00:00Z");
  begin_run(run("new"), "2026-02-01T00:00:00Z");
  base::real_files().create_folders(run("broken"));
  append(run("broken") / "run.json", "{");
  const Json listed = json({"api", "runs"});
  ASSERT_EQ(listed["runs"].size(), 3u);
  EXPECT_EQ(listed["runs"][0]["id"], "new");
  EXPECT_EQ(listed["runs"][2]["status"], "damaged");
}

TEST_F(Page, greets_with_the_runs_that_are_there) {
  begin_run(run("a"));
  EXPECT_TRUE(has(site_.greeting(), "\"id\":\"a\"")) << "before anything else was asked";
}

TEST_F(Page, follows_metrics_as_they_are_written) {
  begin_run(run("a"));
  write_steps(run("a"), 1, 3);
  EXPECT_EQ(curves("a")["rows"], 0) << "it is read when somebody asks for it, between requests";
  EXPECT_TRUE(has(tick(), "event: run\ndata: {"));
  Json all = curves("a");
  EXPECT_EQ(all["steps"], Json({1, 2, 3}));
  EXPECT_EQ(all["curves"]["train/loss"]["mean"], Json::parse("[10,5,3.3333333]"));
  write_steps(run("a"), 4, 5);
  EXPECT_TRUE(has(tick(), "\"step\":5"));
  const Json more = curves("a", {{"generation", all["generation"].dump()}, {"since", "3"}});
  EXPECT_EQ(more["steps"], Json({4, 5}));
  EXPECT_EQ(tick(), "") << "nothing is new";
}

TEST_F(Page, a_torn_line_waits_and_a_damaged_one_is_counted) {
  begin_run(run("a"));
  write_steps(run("a"), 1, 1);
  append(run("a") / "metrics.jsonl", "{\"no\":1}\n{\"step\":2,");
  curves("a");
  tick();
  EXPECT_EQ(curves("a")["rows"], 1);
  EXPECT_EQ(json({"api", "runs"})["runs"][0]["metrics"]["damaged"], 1);
}

TEST_F(Page, a_run_that_was_set_back_is_read_anew) {
  begin_run(run("a"));
  write_steps(run("a"), 1, 5);
  curves("a");
  tick();
  const Json before = curves("a");
  write_steps(run("a"), 3, 3);  // as a resume after step 2 does
  tick();
  const Json after = curves("a", {{"generation", before["generation"].dump()}, {"since", "5"}});
  EXPECT_NE(after["generation"], before["generation"]);
  EXPECT_EQ(after["steps"], Json({1, 2, 3}));
}

TEST_F(Page, another_server_has_other_generations) {
  begin_run(run("a"));
  write_steps(run("a"), 1, 2);
  curves("a");
  tick();
  Site other({.folders = [this] { return base::real_files().list(runs()); },
              .status = [](const auto& record) { return record.status; }});
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Json told = Json::parse(other.answer({{"api", "run", "a", "curves"}, {}}).body);
  EXPECT_NE(told["generation"], curves("a")["generation"]);
}

TEST_F(Page, names_lead_to_runs_that_were_found_and_to_nothing_else) {
  begin_run(run("a"));
  append(folder_ / "secret", "secret");
  begin_run(folder_ / "outside");
  for (const char* name : {"..", ".", "../outside", "/", "", "outside", "a/..", "a ", "A"}) {
    EXPECT_EQ(get({"api", "run", name}).status, 404) << name;
    EXPECT_EQ(get({"api", "run", name, "log"}).status, 404) << name;
    EXPECT_EQ(get({"files", "run", name, "report.html"}).status, 404) << name;
  }
  for (const char* file : {"run.json", "../secret", "report.htm", ""})
    EXPECT_EQ(get({"files", "run", "a", file}).status, 404) << file;
}

TEST_F(Page, what_is_in_a_runs_files_neither_runs_nor_fetches) {
  begin_run(run("a"));
  EXPECT_EQ(get({"files", "run", "a", "report.html"}).status, 404);
  append(run("a") / "report.html", "<script>alert(1)</script>");
  const auto reply = get({"files", "run", "a", "report.html"});
  EXPECT_EQ(reply.body, "<script>alert(1)</script>");
  ASSERT_EQ(reply.headers.size(), 1u);
  EXPECT_EQ(reply.headers[0].first, "Content-Security-Policy");
  EXPECT_TRUE(reply.headers[0].second.starts_with("sandbox; default-src 'none'")) << reply.headers[0].second;
}

TEST_F(Page, tells_each_ranks_means_and_log) {
  begin_run(run("a"));
  write_steps(run("a"), 1, 4, 3);
  base::real_files().create_folders(run("a") / "logs");
  append(run("a") / "logs" / "rank-0.log", "{\"time\":\"t\",\"level\":\"warn\",\"message\":\"slow\"}\nnot json\n");
  const Json ranks = json({"api", "run", "a", "ranks"})["ranks"];
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[2]["rank"], 2);
  EXPECT_EQ(ranks[2]["step"], 4);
  EXPECT_EQ(ranks[2]["step_ms"], 500);
  const Json log = json({"api", "run", "a", "log"}, {{"rank", "0"}});
  EXPECT_EQ(log["lines"][0]["message"], "slow");
  EXPECT_EQ(log["lines"][1]["message"], "not json");
  EXPECT_EQ(json({"api", "run", "a", "log"}, {{"rank", "../../x"}})["lines"].size(), 2u) << "no number is rank 0";
}

TEST_F(Page, tells_answers_as_they_are_sampled) {
  begin_run(run("a"));
  {
    report::MetricsWriter writer(base::real_files(), run("a"), 0, 0);
    report::EvalRecord record{.step = 2, .split = "validation", .loss = 1.5};
    record.samples = {{"<b>Once", "upon"}};
    writer.write(record);
  }
  curves("a");
  tick();
  EXPECT_EQ(curves("a")["evaluations"][0]["values"]["validation/loss"], 1.5);
  EXPECT_EQ(json({"api", "run", "a", "answers"})["evaluations"][0]["samples"][0]["text"], "upon");
}

TEST_F(Page, a_run_that_went_is_told) {
  begin_run(run("a"));
  begin_run(run("b"));
  json({"api", "runs"});
  tick();
  base::real_files().remove_all(run("a"));
  std::string told;
  for (int i = 0; i < 600 && told.empty(); ++i) {
    told = tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(told, "event: gone\ndata: \"a\"\n\n");
  EXPECT_EQ(get({"api", "run", "a"}).status, 404);
}

TEST_F(Page, only_so_many_runs_are_held_in_memory) {
  for (int i = 0; i < 20; ++i) begin_run(run("r" + std::to_string(i)));
  for (int i = 0; i < 20; ++i) curves("r" + std::to_string(i));
  int held = 0;
  const Json listed = json({"api", "runs"});
  for (const auto& one : listed["runs"]) held += one["metrics"].is_null() ? 0 : 1;
  EXPECT_EQ(held, static_cast<int>(RunList::kMostFollowed));
}

TEST_F(Page, prometheus_text_has_each_family_once) {
  for (const char* name : {"a", "b"}) begin_run(run(name)), write_steps(run(name), 1, 2);
  for (const char* name : {"a", "b"}) curves(name);
  tick();
  const std::string text = get({"metrics"}).body;
  const auto first = text.find("# TYPE hyperion_train_loss gauge");
  ASSERT_NE(first, text.npos) << text;
  EXPECT_EQ(text.find("# TYPE hyperion_train_loss", first + 1), text.npos);
  EXPECT_TRUE(has(text, "hyperion_train_loss{run=\"a\"} 5\nhyperion_train_loss{run=\"b\"} 5\n")) << text;
}

}  // namespace
}  // namespace hyperion::dash

#include "hyperion/report/page.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "hyperion/base/error.h"
#include "hyperion/report/html.h"

namespace hyperion::report {
namespace {

const std::string kHostile = "<script>alert('x')</script>&\"<img src=http://evil.example/a.png>";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t count_in_page(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

RunPage full_page(const std::string& word) {
  RunPage page;
  page.title = word;
  page.lead = word;
  for (int64_t step = 1; step <= 20; ++step) {
    StepRecord record;
    record.step = step;
    record.loss = 5.0 / static_cast<double>(step);
    record.step_ms = 10;
    record.tokens = 100;
    record.tokens_per_s = 10'000;
    record.forward_ms = 4;
    page.metrics.steps.push_back(record);
  }
  page.metrics.evaluations = {{10, word, 1, 2.718, 0.5, 0.25}, {20, word, 0.5, 1.649, 0.75, 0.931}};
  page.total_steps = 20;
  page.parameters = 1'234'567;
  page.seconds = 190;
  page.samples = {{word, word, word, true}, {word, word, word, false}, {word, word, "", std::nullopt}};
  page.config = {{word, word, word, word, false}, {word, "b", "1", "default", true}};
  page.state = page.parameters_note = word;
  page.environment = {{word, word}};
  page.checkpoints = {{20, word, 2048, word}};
  return page;
}

TEST(RunPage, leaves_no_input_unescaped) {
  const std::string html = run_page(full_page(kHostile));
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "alert('x')"));
  EXPECT_TRUE(has(html, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"));
}

TEST(RunPage, shows_the_picture_of_its_stages_as_nothing_but_a_picture) {
  RunPage page;
  page.pipeline = kHostile;
  const std::string html = run_page(page);
  EXPECT_TRUE(has(html, "data:image/svg+xml,%3Cscript%3Ealert%28%27x%27%29%3C%2Fscript%3E"));
  EXPECT_FALSE(has(html, "<script"));
}

TEST(RunPage, needs_nothing_from_elsewhere) {
  std::string html = run_page(full_page("quiet"));
  // The name of SVG's namespace is no address that anything is fetched from.
  const std::string space = "xmlns=\"http://www.w3.org/2000/svg\"";
  for (size_t at; (at = html.find(space)) != std::string::npos;) html.erase(at, space.size());
  for (const char* outside : {"http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link"}) {
    EXPECT_FALSE(has(html, outside)) << outside;
  }
}

TEST(RunPage, shows_the_last_evaluation_as_headline) {
  const std::string html = run_page(full_page("validation"));
  for (const char* part : {"93.1%", "75.0%", "1.649", "1.23 M", "03:10", "10,000", "of 20"})
    EXPECT_TRUE(has(html, part)) << part;
  EXPECT_TRUE(has(html, "✓ right"));
  EXPECT_TRUE(has(html, "✗ wrong"));
  EXPECT_TRUE(has(html, "expected validation"));
  EXPECT_TRUE(has(html, "2.0 KiB"));
}

TEST(RunPage, leaves_out_parts_without_content) {
  RunPage page;
  page.title = "just begun";
  const std::string html = run_page(page);
  EXPECT_TRUE(has(html, "<h1>just begun</h1>"));
  for (const char* part : {"<section", "<svg", "<table", "class=\"card\""}) EXPECT_FALSE(has(html, part)) << part;
}

TEST(RunPage, says_when_the_loss_is_not_finite) {
  RunPage page;
  StepRecord record;
  record.loss = record.grad_norm = record.tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  page.metrics.steps = {record, record, record};
  const std::string html = run_page(page);
  EXPECT_TRUE(has(html, "not finite"));
  EXPECT_TRUE(has(html, "no points to show"));
  EXPECT_FALSE(has(html, "nan"));
}

TEST(RunPage, every_element_that_opens_closes) {
  const std::string html = run_page(full_page("run"));
  for (const char* tag :
       {"div", "section", "dl", "dt", "dd", "table", "tr", "td", "th", "p", "svg", "figure", "text", "span"}) {
    const std::string name = tag;
    EXPECT_EQ(count_in_page(html, "<" + name + " ") + count_in_page(html, "<" + name + ">"),
              count_in_page(html, "</" + name + ">"))
        << tag;
  }
}

TEST(RunPage, takes_the_settings_with_their_origins) {
  int64_t steps = 10;
  base::Settings settings;
  settings.section("train", "the loop").integer("steps", steps, {1, 1000}, "how many", "steps");
  settings.set("train.steps", "30", "command line");
  const std::vector<ConfigRow> rows = config_rows(settings);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].section, "train");
  EXPECT_EQ(rows[0].key, "steps");
  EXPECT_EQ(rows[0].value, "30 steps");
  EXPECT_EQ(rows[0].origin, "command line");
  EXPECT_FALSE(rows[0].is_default);
  settings.set("train.steps", "10", "config.resolved.toml");
  EXPECT_TRUE(config_rows(settings)[0].is_default);
}

TEST(RunPage, says_first_what_is_not_over_and_folds_defaults_away_last) {
  RunPage page = full_page("run");
  page.state = "It is being trained";
  const std::string html = run_page(page);
  EXPECT_LT(html.find("It is being trained"), html.find("class=\"cards\""));
  const size_t settings = html.find("<h2>Settings</h2>"), folded = html.find("<details>");
  EXPECT_LT(html.find("<h2>Checkpoints</h2>"), settings);
  EXPECT_LT(settings, folded);
  EXPECT_TRUE(has(html, "<summary>1 settings as they are by default</summary>"));
  page.config.pop_back();
  EXPECT_FALSE(has(run_page(page), "<details>"));
}

TEST(RunPage, speaks_of_an_image_and_a_token) {
  RunPage page = full_page("run");
  EXPECT_TRUE(has(run_page(page), "nats a token"));
  page.unit = "image";
  EXPECT_TRUE(has(run_page(page), "nats an image"));
}

TEST(Table, sets_number_columns_to_the_right) {
  const std::string html = table({"name", "ms"}, {{"a", "12.5"}, {"b", "-3"}});
  EXPECT_TRUE(has(html, "<td>a</td><td class=\"number\">12.5</td>"));
  EXPECT_TRUE(has(html, "<th>name</th><th class=\"number\">ms</th>"));
  EXPECT_THROW(table({"one"}, {{"a", "b"}}), std::exception);
}

TEST(HtmlPage, is_a_whole_document_around_the_body) {
  const std::string html = html_page("a < b", "<p>body</p>");
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0u);
  EXPECT_TRUE(has(html, "<title>a &lt; b</title>"));
  EXPECT_TRUE(has(html, "<p>body</p>"));
  EXPECT_TRUE(has(html, "prefers-color-scheme:dark"));
}

}  // namespace
}  // namespace hyperion::report

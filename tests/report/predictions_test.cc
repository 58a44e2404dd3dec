#include "hyperion/report/predictions.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/page.h"

namespace hyperion::report {
namespace {

class PredictionsFile : public ::testing::Test {
 protected:
  PredictionsFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    run_ = ::mkdtemp(pattern.data());
  }
  ~PredictionsFile() override { std::filesystem::remove_all(run_); }
  base::FileSystem& files_ = base::real_files();
  base::Path run_;
};

TEST_F(PredictionsFile, comes_back_as_it_was_written) {
  EXPECT_FALSE(read_predictions(files_, run_).has_value());
  write_predictions(files_, run_, {7, {{"aGk=", "cat", "<dog>", 0.75}}});
  const auto back = read_predictions(files_, run_);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step, 7);
  ASSERT_EQ(back->pictures.size(), 1u);
  EXPECT_EQ(back->pictures[0].truth, "<dog>");
  EXPECT_EQ(back->pictures[0].share, 0.75);
}

TEST_F(PredictionsFile, that_is_damaged_is_named) {
  for (const char* text : {"{", "[]", "{\"step\": \"x\"}",
                           "{\"step\":1,\"pictures\":[{\"png\":\"\\\"><script>\",\"predicted\":\"a\",\"truth\":\"a\","
                           "\"share\":1}]}"}) {
    base::write_atomically(files_, run_ / "predictions.json", text);
    EXPECT_THROW(read_predictions(files_, run_), base::CorruptError) << text;
  }
}

TEST(Page, shows_predictions_with_the_truth_where_they_are_wrong) {
  RunPage page;
  page.predictions = PredictionRecord{3, {{"aGk=", "cat", "<dog>", 0.75}, {"aGk=", "owl", "owl", 1}}};
  const std::string html = run_page(page);
  EXPECT_NE(html.find("it is &lt;dog&gt;"), std::string::npos);
  EXPECT_EQ(html.find("it is owl"), std::string::npos);
  EXPECT_NE(html.find("src=\"data:image/png;base64,aGk=\""), std::string::npos);
}

TEST(Page, shows_the_last_continuations_and_folds_those_before_away) {
  RunPage page;
  page.metrics.evaluations = {{.step = 2, .split = "validation", .samples = {{"once", " upon"}}},
                              {.step = 4, .split = "validation", .samples = {{"once", " <more>\n"}}}};
  const std::string html = run_page(page);
  EXPECT_NE(html.find("Prompts continued after step 4"), std::string::npos);
  EXPECT_NE(html.find(" &lt;more&gt;\n"), std::string::npos);
  EXPECT_NE(html.find("<summary>1 before</summary>"), std::string::npos);
}

TEST_F(PredictionsFile, continuations_come_back_from_the_metrics) {
  {
    MetricsWriter writer(files_, run_, 0, 0);
    writer.write(EvalRecord{.step = 1, .split = "validation", .loss = 2, .samples = {{"a\n", "\xff\"b"}}});
  }
  const auto back = read_metrics(files_.read(run_ / "metrics.jsonl"));
  ASSERT_EQ(back.evaluations.size(), 1u);
  ASSERT_EQ(back.evaluations[0].samples.size(), 1u);
  EXPECT_EQ(back.evaluations[0].samples[0].prompt, "a\n");
  EXPECT_EQ(back.evaluations[0].samples[0].text, "\xEF\xBF\xBD\"b");
}

}  // namespace
}  // namespace hyperion::report

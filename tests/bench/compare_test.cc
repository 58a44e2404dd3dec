#include "hyperion/bench/compare.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"

namespace hyperion::bench {
namespace {

Figures of(double value, double half_spread = 0, bool lower = true) {
  return {"train", "CPU", {{"step", lower ? "ms" : "GB/s", value, value - half_spread, value + half_spread, lower}}};
}

Verdict verdict(const Figures& before, const Figures& after, double fail_over = 0.03) {
  return compare(before, after, fail_over).figures.at(0).verdict;
}

TEST(Compare, slower_by_more_than_allowed_is_a_regression) {
  EXPECT_EQ(verdict(of(100), of(104)), Verdict::regression);
  EXPECT_EQ(verdict(of(100), of(102)), Verdict::worse);
  EXPECT_EQ(verdict(of(100), of(100)), Verdict::same);
  EXPECT_EQ(verdict(of(100), of(90)), Verdict::better);
  EXPECT_EQ(verdict(of(100), of(104), 0.05), Verdict::worse);
}

TEST(Compare, of_a_rate_less_is_worse) {
  EXPECT_EQ(verdict(of(100, 0, false), of(90, 0, false)), Verdict::regression);
  EXPECT_EQ(verdict(of(100, 0, false), of(110, 0, false)), Verdict::better);
}

TEST(Compare, what_lies_within_the_spread_of_blocks_is_the_same) {
  EXPECT_EQ(verdict(of(100, 5), of(104, 1)), Verdict::same);
  const auto figure = compare(of(100, 3), of(100, 4), 0.03).figures[0];
  EXPECT_NEAR(figure.noise, 0.05, 1e-12);  // 3% and 4% as independent errors
}

TEST(Compare, a_case_that_failed_only_after_is_a_regression) {
  Figures failed = of(0);
  failed.list[0].value.reset();
  EXPECT_EQ(verdict(of(100), failed), Verdict::regression);
  EXPECT_EQ(verdict(failed, of(100)), Verdict::better);
  EXPECT_EQ(verdict(failed, failed), Verdict::same);
}

TEST(Compare, what_only_one_side_has_is_shown_and_does_not_fail) {
  Figures more = of(100);
  more.list.push_back(single_figure("peak", "MiB", 7, true));
  const auto lost = compare(more, of(100), 0.03), gained = compare(of(100), more, 0.03);
  EXPECT_EQ(lost.figures[1].verdict, Verdict::only_before);
  EXPECT_EQ(gained.figures[1].verdict, Verdict::only_after);
  EXPECT_EQ(lost.regressions() + gained.regressions(), 0);
  EXPECT_NE(comparison_table(lost, 0.03).find("only in A"), std::string::npos);
}

TEST(Compare, results_of_different_benches_are_refused) {
  Figures other = of(100);
  other.bench = "kernels";
  EXPECT_THROW(compare(of(100), other, 0.03), base::ConfigError);
  other = of(100);
  other.list[0].name = "another";
  EXPECT_THROW(compare(of(100), other, 0.03), base::ConfigError);
  other = of(100);
  other.list[0].unit = "s";
  EXPECT_THROW(compare(of(100), other, 0.03), base::ConfigError);
}

TEST(Compare, another_device_is_told) {
  Figures other = of(100);
  other.device = "NVIDIA H200";
  EXPECT_EQ(compare(of(100), other, 0.03).notes.size(), 1u);
}

TEST(Compare, other_settings_are_told_and_another_sense_is_refused) {
  Figures other = of(100);
  other.settings = {"train.batch=8"};
  const auto notes = compare(of(100), other, 0.03).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("train.batch=8"), std::string::npos);
  other = of(100);
  other.list[0].lower_is_better = false;
  EXPECT_THROW(compare(of(100), other, 0.03), base::ConfigError);
}

TEST(Compare, noise_that_is_not_known_is_not_called_none) {
  const Figures once{"train", "CPU", {time_figure("step", "ms", profile::spread_of({0.1}), 1e3)}};
  const auto read = read_figures(result_json(once).dump(), "x.json");
  EXPECT_TRUE(read.list[0].timed_once);
  const auto comparison = compare(read, of(150), 0.03);
  EXPECT_FALSE(comparison.figures[0].noise_known);
  EXPECT_EQ(comparison.notes.size(), 1u);
  EXPECT_NE(comparison_table(comparison, 0.03).find("unknown"), std::string::npos);
  EXPECT_TRUE(base::Json::parse(comparison_json(comparison, 0.03)).at("figures")[0].at("noise").is_null());
}

TEST(Compare, what_was_timed_once_is_judged_only_when_asked) {
  Figures once = of(100);
  once.list[0].timed_once = true;
  for (const double after : {50.0, 99.0, 101.0, 150.0, 0.0}) {
    EXPECT_EQ(verdict(once, of(after)), Verdict::unknown) << after;
    EXPECT_EQ(verdict(of(after), once), Verdict::unknown) << after;
    EXPECT_EQ(compare(once, of(after), 0.03).regressions(), 0) << after;
  }
  EXPECT_EQ(verdict(once, of(100)), Verdict::same);
  EXPECT_EQ(compare(once, of(150), 0.03, /*judge_once=*/true).regressions(), 1);
  Figures failed = once;
  failed.list[0].value.reset();
  EXPECT_EQ(verdict(once, failed), Verdict::regression);
}

TEST(Figures, that_cannot_be_are_refused) {
  const auto text = result_json(of(12.5)).dump();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  EXPECT_NO_THROW(read_figures(text, "x.json"));
  EXPECT_THROW(read_figures(with("\"value\":12.5", "\"value\":-5"), "x.json"), base::CorruptError);
  EXPECT_THROW(read_figures(with("\"lower\"", "\"banana\""), "x.json"), base::CorruptError);
}

TEST(Figures, of_one_name_are_compared_in_their_order) {
  Figures twice = of(1);
  twice.list.push_back(of(7).list[0]);
  const auto read = read_figures(result_json(twice).dump(), "x.json");
  EXPECT_EQ(read.list[1].name, "step (2)");
  EXPECT_EQ(compare(read, read, 0.03).regressions(), 0);
}

TEST(Compare, zero_is_compared_without_dividing) {
  EXPECT_EQ(verdict(of(0), of(0)), Verdict::same);
  EXPECT_EQ(verdict(of(0), of(1)), Verdict::regression);
  EXPECT_EQ(verdict(of(1), of(0)), Verdict::better);
}

TEST(Compare, reads_percentages_and_refuses_the_rest) {
  EXPECT_DOUBLE_EQ(part_of("3%"), 0.03);
  EXPECT_DOUBLE_EQ(part_of("0.5 %"), 0.005);
  EXPECT_DOUBLE_EQ(part_of("0"), 0);
  for (const char* text : {"", "%", "-1%", "nan", "3%%", "three", "1e9"})
    EXPECT_THROW(part_of(text), base::ConfigError) << text;
}

TEST(Figures, come_back_from_their_json) {
  Figures figures = of(12.5, 0.5);
  figures.list.push_back(single_figure("failed", "ms", {}, true));
  figures.list.push_back(single_figure("rate", "GB/s", 3, false));
  const auto read = read_figures(result_json(figures).dump(), "x.json");
  EXPECT_EQ(read.bench, "train");
  ASSERT_EQ(read.list.size(), 3u);
  EXPECT_EQ(read.list[0].value, 12.5);
  EXPECT_EQ(read.list[0].low, 12);
  EXPECT_FALSE(read.list[1].value.has_value());
  EXPECT_FALSE(read.list[2].lower_is_better);
}

TEST(Figures, other_json_is_refused_by_name) {
  for (const char* text : {"[]", "{}", R"({"bench": 3})", R"({"bench": "x", "device_name": "y"})", "nonsense",
                           R"({"bench": "x", "device_name": "y", "figures": [3]})",
                           R"({"bench": "x", "device_name": "y", "figures": [{"name": "a"}]})",
                           R"({"bench": "x", "device_name": "y",
                               "figures": [{"name": "a", "unit": "ms", "better": "lower", "value": "much"}]})"}) {
    try {
      read_figures(text, "some.json");
      ADD_FAILURE() << text;
    } catch (const base::CorruptError& error) {
      EXPECT_NE(std::string(error.what()).find("some.json"), std::string::npos) << error.what();
    }
  }
}

TEST(Figures, a_folder_stands_for_its_one_result) {
  const auto folder = base::Path(testing::TempDir()) / "compare_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_THROW(open_figures(folder.string()), base::ConfigError);
  base::write_atomically(base::real_files(), folder / "train.json", result_json(of(3)).dump());
  base::write_atomically(base::real_files(), folder / "train.csv", "");
  EXPECT_EQ(open_figures(folder.string()).list.size(), 1u);
  EXPECT_THROW(open_figures((folder / "none.json").string()), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::bench

// Results of benches kept as baselines, and later ones held against them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::run;
using testing::says;
using Words = std::vector<std::string>;

class Baselines : public ::testing::Test {
 protected:
  // Two figures: a step's milliseconds within 2% and a rate that was timed once.
  static json result(double step) {
    return {{"bench", "train"},
            {"device_name", "a GPU"},
            {"time", "2026-11-19T20:00:00Z"},
            {"tree", "0.1.0 (1234567)"},
            {"machine", {{"cpu", "a CPU"}, {"cores", "8"}, {"driver", "580.65"}}},
            {"settings", json::array()},
            {"figures",
             {{{"name", "tiny graph step"},
               {"unit", "ms"},
               {"better", "lower"},
               {"value", step},
               {"low", step * 0.99},
               {"high", step * 1.01}},
              {{"name", "tiny rate"},
               {"unit", "GB/s"},
               {"better", "higher"},
               {"value", 50},
               {"low", nullptr},
               {"high", nullptr}}}}};
  }
  std::string write(const std::string& name, const json& content) {
    testing::write_file(scratch_.path() / name, content.dump());
    return (scratch_.path() / name).string();
  }
  Finished baseline(const Words& words) {
    Words all{"bench", "baseline"};
    all.insert(all.end(), words.begin(), words.end());
    return run(scratch_, all);
  }
  void expect_refused(const Words& words, const std::string& why) {
    const auto done = baseline(words);
    EXPECT_EQ(done.code, 2) << done.out << done.err;
    EXPECT_TRUE(says(done.err, why)) << done.err;
    EXPECT_TRUE(says(done.err, "hint: ")) << done.err;
  }
  testing::Scratch scratch_;
};

TEST_F(Baselines, tell_a_regression_from_noise) {
  ASSERT_EQ(baseline({"save", "main", write("a.json", result(100))}).code, 0);
  const auto check = [&](double step, const Words& more = {}) {
    Words words{"check", "main", write("b.json", result(step))};
    words.insert(words.end(), more.begin(), more.end());
    return baseline(words);
  };
  const auto same = check(104);
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_TRUE(says(same.out, "+4.0%") && says(same.out, "1.4%") && says(same.out, "worse\n")) << same.out;
  EXPECT_TRUE(says(same.out, "on a GPU by 0.1.0 (1234567), 2026-11-19T20:00:00Z")) << same.out;
  const auto slower = check(106);
  EXPECT_EQ(slower.code, 1);
  EXPECT_TRUE(says(slower.out, "REGRESSION") && says(slower.out, "1 of 2 figures worse by more than 5%")) << slower.out;
  EXPECT_EQ(check(104, {"--threshold", "3%"}).code, 1);
  EXPECT_EQ(check(106, {"--threshold", "10"}).code, 0);
  EXPECT_EQ(check(90).code, 0);
  const auto found = json::parse(check(106, {"--json"}).out);
  EXPECT_EQ(found["regressions"], 1);
  EXPECT_EQ(found["figures"][0]["verdict"], "REGRESSION");
  EXPECT_NEAR(found["figures"][0]["change"].get<double>(), 0.06, 1e-9);
  EXPECT_EQ(found["baseline"]["machine"]["cores"], "8");
  EXPECT_EQ(found["baseline"]["tree"], "0.1.0 (1234567)");
}

TEST_F(Baselines, judge_what_was_timed_once_only_on_request) {
  ASSERT_EQ(baseline({"save", "main", write("a.json", result(100))}).code, 0);
  auto lower = result(100);
  lower["figures"][1]["value"] = 20;
  const auto unknown = baseline({"check", "main", write("b.json", lower)});
  EXPECT_EQ(unknown.code, 0);
  EXPECT_TRUE(says(unknown.out, "; 1 not judged")) << unknown.out;
  EXPECT_EQ(baseline({"check", "main", write("b.json", lower), "--judge-once"}).code, 1);
}

TEST_F(Baselines, refuse_what_they_say_nothing_of) {
  ASSERT_EQ(baseline({"save", "main", write("a.json", result(100))}).code, 0);
  auto other = result(100);
  other["device_name"] = "another GPU", other["machine"]["cores"] = "16", other["settings"] = {"train.batch=8"};
  const auto path = write("b.json", other);
  for (const char* what : {"device: a GPU in the baseline, another GPU now", "cores: 8 in the baseline, 16 now",
                           "settings: the workloads' own settings in the baseline, train.batch=8 now"})
    expect_refused({"check", "main", path}, what);
  auto bench = result(100);
  bench["bench"] = "kernels";
  expect_refused({"check", "main", write("b.json", bench)}, "bench: train in the baseline, kernels now");
  auto workload = result(100);
  workload["figures"][0]["name"] = "x", workload["figures"][1]["name"] = "y";
  expect_refused({"check", "main", write("b.json", workload)}, "other workloads");
  expect_refused({"check", "man", write("b.json", result(100))}, "did you mean main?");
  expect_refused({"check", "main", write("b.json", result(100)), "--threshold", "much"}, "is no percentage");
  expect_refused({"check", "main", (scratch_.path() / "none.json").string()}, "none.json");
  const auto kept = scratch_.runs() / "baselines/main.json";
  testing::write_file(kept, testing::read_file(kept).substr(0, 40));
  expect_refused({"check", "main", write("b.json", result(100))}, "baselines/main.json");
}

TEST_F(Baselines, are_replaced_only_on_request) {
  const auto path = write("a.json", result(100));
  ASSERT_EQ(baseline({"save", "main", path}).code, 0);
  const auto kept = testing::read_file(scratch_.runs() / "baselines/main.json");
  expect_refused({"save", "main", write("b.json", result(200))}, "there is a baseline main already");
  EXPECT_EQ(testing::read_file(scratch_.runs() / "baselines/main.json"), kept);
  EXPECT_EQ(baseline({"save", "main", write("b.json", result(200)), "--replace"}).code, 0);
  EXPECT_EQ(baseline({"check", "main", path}).code, 0) << "half as long is no regression";
  for (const char* name : {"../main", "a/b", "", ".hidden", "-x", "a b"})
    EXPECT_EQ(baseline({"save", name, path}).code, 2) << name;
  auto failed = result(100);
  for (auto& figure : failed["figures"]) figure["value"] = nullptr;
  expect_refused({"save", "failed", write("b.json", failed)}, "has no figure to keep: all failed");
  const auto listed = json::parse(baseline({"ls", "--json"}).out);
  ASSERT_EQ(listed.size(), 1u) << listed;
  EXPECT_EQ(listed[0]["name"], "main");
  EXPECT_EQ(listed[0]["figures"], 2);
}

// Of a real bench: what it writes says on which machine and by which tree.
TEST_F(Baselines, of_a_bench_have_its_machine_and_tree) {
  const auto folder = (scratch_.path() / "measured").string();
  const auto done =
      run(scratch_, {"bench", "train", "tiny-llama", "--device", "cpu", "--steps", "2", "--folder", folder});
  ASSERT_EQ(done.code, 0) << done.err;
  ASSERT_EQ(baseline({"save", "main", folder}).code, 0);
  const auto kept = json::parse(testing::read_file(scratch_.runs() / "baselines/main.json"));
  EXPECT_TRUE(kept["machine"].contains("cpu") && kept["machine"].contains("cores")) << kept;
  EXPECT_FALSE(kept["tree"].get<std::string>().empty());
  const auto check = baseline({"check", "main", folder});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_TRUE(says(check.out, "+0.0%") && says(check.out, "same")) << check.out;
  // A baseline is a result itself.
  EXPECT_EQ(run(scratch_, {"compare", (scratch_.runs() / "baselines/main.json").string(), folder}).code, 0);
}

TEST_F(Baselines, stand_in_a_report) {
  ASSERT_EQ(baseline({"save", "main", write("a.json", result(100))}).code, 0);
  const auto page = scratch_.path() / "r.md";
  const auto done =
      run(scratch_, {"report", write("b.json", result(110)), "--baseline", "main", "--output", page.string()});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto text = testing::read_file(page);
  EXPECT_TRUE(says(text, "against baseline main") && says(text, "+10.0%") && says(text, "REGRESSION")) << text;
  auto kernels = result(100);
  kernels["bench"] = "kernels";
  EXPECT_EQ(run(scratch_, {"report", write("b.json", kernels), "--baseline", "main", "--output", page.string()}).code,
            2);
}

}  // namespace
}  // namespace hyperion

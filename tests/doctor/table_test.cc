#include "hyperion/doctor/table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hyperion::doctor {
namespace {

const std::vector<Check> kChecks = {
    {"cpu", "machine", Verdict::ok, "8 cores", ""},
    {"NCCL", "libraries", Verdict::fail, "2.21.5, built against 2.28.9", "install NCCL 2.28.9"},
    {"run folder", "machine", Verdict::warn, "1.0 GiB free", "free some"},
};

TEST(table, lines_are_grouped_and_aligned_with_hints_below) {
  EXPECT_EQ(doctor_table(kChecks, false),
            "machine\n"
            "  ✓ cpu         8 cores\n"
            "  ! run folder  1.0 GiB free\n"
            "                hint: free some\n"
            "libraries\n"
            "  ✗ NCCL        2.21.5, built against 2.28.9\n"
            "                hint: install NCCL 2.28.9\n"
            "\n"
            "1 ok, 1 warning, 1 failure: mend what is marked ✗, then run hyperion doctor again\n");
}

TEST(table, color_comes_only_when_asked) {
  EXPECT_EQ(doctor_table(kChecks, false).find('\033'), std::string::npos);
  EXPECT_NE(doctor_table(kChecks, true).find("\033[31m✗\033[0m"), std::string::npos);
}

TEST(table, the_summary_says_what_to_do) {
  EXPECT_NE(doctor_table({kChecks[0]}, false).find("1 ok, 0 warnings, 0 failures: ready to train\n"),
            std::string::npos);
  EXPECT_NE(doctor_table({kChecks[2]}, false).find("0 ok, 1 warning, 0 failures: ready to train; "), std::string::npos);
}

TEST(table, long_findings_wrap_under_their_column) {
  std::string words = "start";
  for (int word = 0; word < 40; ++word) words += " again";
  const std::string table = doctor_table({{"cpu", "machine", Verdict::ok, words, ""}}, false);
  EXPECT_NE(table.find("\n         again"), std::string::npos);
  for (size_t at = 0, end; (end = table.find('\n', at)) != std::string::npos; at = end + 1) EXPECT_LE(end - at, 120u);
}

TEST(table, json_holds_every_check_and_the_counts) {
  const auto json = nlohmann::json::parse(doctor_json(kChecks));
  ASSERT_EQ(json["checks"].size(), 3u);
  EXPECT_EQ(json["checks"][1]["name"], "NCCL");
  EXPECT_EQ(json["checks"][1]["verdict"], "fail");
  EXPECT_EQ(json["checks"][2]["hint"], "free some");
  EXPECT_EQ(json["ok"], 1);
  EXPECT_EQ(json["warn"], 1);
  EXPECT_EQ(json["fail"], 1);
}

TEST(table, json_survives_names_that_are_not_utf8) {
  EXPECT_NO_THROW(nlohmann::json::parse(doctor_json({{"run folder", "machine", Verdict::ok, "/tmp/\xff", ""}})));
}

TEST(table, only_a_fail_counts_as_failing) {
  EXPECT_TRUE(any_fail(kChecks));
  EXPECT_FALSE(any_fail({kChecks[0], kChecks[2]}));
}

}  // namespace
}  // namespace hyperion::doctor

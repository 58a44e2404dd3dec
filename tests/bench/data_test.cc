#include "hyperion/bench/data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/text/unicode.h"
#include "hyperion/tokenizers/bpe_trainer.h"

namespace hyperion::bench {
namespace {

TEST(DataBench, TextIsTheSameEachTimeAndValid) {
  const auto text = mixed_text(100'000);
  EXPECT_EQ(text, mixed_text(100'000));
  EXPECT_GE(text.size(), 100'000u);
  EXPECT_EQ(text::valid_prefix(text), text.size());
}

TEST(DataBench, MeasuresEachTokenizerOnOneThreadAndOnAll) {
  const auto path = std::filesystem::temp_directory_path() / base::format("bench-data-{}.json", ::getpid());
  tokenizers::BpeTrainer trainer({tokenizers::Pattern::kGpt2, 300, 0, {}});
  trainer.add(mixed_text(10'000));
  std::ofstream(path) << trainer.train();
  const auto result = run_data_bench({path.string()}, mixed_text(50'000), "made", 2, 0.01);
  std::filesystem::remove(path);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].threads, 1);
  EXPECT_EQ(result.rows[1].threads, 2);
  EXPECT_EQ(result.rows[0].tokens, result.rows[1].tokens);
  EXPECT_GT(result.rate(result.rows[0]), 0);
  EXPECT_DOUBLE_EQ(result.efficiency(result.rows[0]), 1);
  EXPECT_EQ(base::parse_json(data_bench_json(result), "json").at("rows").size(), 2u);
  const auto csv = data_bench_csv(result);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

TEST(DataBench, ReadSetsStandInTheTableAndInTheJson) {
  DataResult result{{}, 0, 2, {}, {}};
  result.sets.push_back({"sets/a", false, 1000, 1024, 0, 1.5, 300});
  EXPECT_TRUE(data_bench_table(result).starts_with("sets/a"));
  const auto json = base::parse_json(data_bench_json(result), "json");
  EXPECT_EQ(json.at("sets").at(0).at("samples_per_s"), 300.0);
  EXPECT_EQ(json.at("figures").size(), 2u);
}

TEST(DataBench, RefusesAnEmptyText) { EXPECT_THROW(run_data_bench({}, "", "empty.txt", 1, 0.01), base::ConfigError); }

}  // namespace
}  // namespace hyperion::bench

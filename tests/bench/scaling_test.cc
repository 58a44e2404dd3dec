#include "hyperion/bench/scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"

namespace hyperion::bench {
namespace {

constexpr const char* kHeader = "step,loss,step_ms,tokens,memory_peak,comm_ms,comm_total_ms,comm_bytes,sample_hash\n";

TEST(ScalingBench, a_step_is_as_slow_as_its_slowest_rank_and_warm_up_is_left_out) {
  const std::string first =
      std::string(kHeader) + "1,5,900,1000,50,1,1,1,ab\n2,4,100,1000,60,10,40,2000,ab\n3,3,100,1000,70,10,40,2000,ab\n";
  const std::string second =
      std::string(kHeader) + "1,5,900,1000,50,1,1,1,ab\n2,4,200,1000,90,30,80,4000,ab\n3,3,200,1000,80,30,80,4000,ab\n";
  ScalingRow row;
  read_rank_tables(row, {first, second}, 1);
  EXPECT_DOUBLE_EQ(row.step.median, 0.2);
  EXPECT_DOUBLE_EQ(row.tokens_s, 5000);
  EXPECT_DOUBLE_EQ(row.exposed, 0.02);
  EXPECT_DOUBLE_EQ(row.under_way, 0.06);
  EXPECT_NEAR(row.hidden(), 2.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(row.computing, 0.18);
  EXPECT_DOUBLE_EQ(row.bytes, 3000);
  EXPECT_EQ(row.peak, 90);
  EXPECT_DOUBLE_EQ(row.loss, 3);
}

TEST(ScalingBench, one_process_has_no_communication_and_a_torn_table_is_told) {
  ScalingRow row;
  read_rank_tables(row, {std::string(kHeader) + "1,5,100,1000,50,,,,ab\n2,5,100,1000,50,,,,ab\n"}, 1);
  EXPECT_EQ(row.exposed + row.under_way + row.bytes + row.hidden(), 0);
  EXPECT_THROW(read_rank_tables(row, {kHeader}, 1), base::CorruptError);
  EXPECT_THROW(read_rank_tables(row, {"step\n1\n2\n"}, 1), base::CorruptError);
}

ScalingRow made(const char* mode, int64_t ranks, double seconds) {
  ScalingRow row;
  row.mode = mode, row.ranks = ranks;
  row.step = {seconds, seconds, seconds, 4};
  row.tokens_s = 1000 / seconds;
  return row;
}

TEST(ScalingBench, gains_count_from_one_process_or_the_fewest_ranks_of_the_mode) {
  ScalingResult result{"recipe", "CPU", 8, 1, 4, {made("ddp", 1, 0.8), made("ddp", 2, 0.4), made("zero3", 4, 0.4)}};
  auto broken = made("zero2", 4, 0);
  broken.failed = "no such thing";
  result.rows.push_back(broken);
  const auto outcome = scaling_outcome(result);
  EXPECT_NE(outcome.table.find("2.00x"), std::string::npos) << outcome.table;
  EXPECT_NE(outcome.table.find("100%"), std::string::npos) << outcome.table;
  EXPECT_NE(outcome.table.find("50%"), std::string::npos) << "zero3, twice as fast on four\n" << outcome.table;
  EXPECT_NE(outcome.table.find("zero2 on 4 ranks: no such thing"), std::string::npos) << outcome.table;
  EXPECT_EQ(read_figures(outcome.json, "scaling.json").list.size(), 4u);
  EXPECT_EQ(outcome.pictures.size(), 5u);
  for (const auto& [name, svg] : outcome.pictures) EXPECT_TRUE(svg.starts_with("<svg")) << name;

  ScalingResult without_one{"recipe", "CPU", 8, 1, 4, {made("zero3", 2, 0.8), made("zero3", 4, 0.4)}};
  EXPECT_EQ(base_of(without_one, without_one.rows[1]), &without_one.rows[0]);
  EXPECT_DOUBLE_EQ(base::parse_json(scaling_outcome(without_one).json, "")["rows"][1]["efficiency"], 1);
}

}  // namespace
}  // namespace hyperion::bench

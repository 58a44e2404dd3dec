#include "hyperion/bench/kernels.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"

namespace hyperion::bench {
namespace {

KernelBenchOptions tiny_kernels() {
  KernelBenchOptions options;
  options.device = "cpu";
  options.sizes = {"small"};
  options.seconds = 0.001;
  return options;
}

const KernelResult& tiny_kernel_result() {
  static const KernelResult result = run_kernel_bench(tiny_kernels());
  return result;
}

TEST(KernelBench, every_operation_agrees_with_atens) {
  const OperationPlace place{c10::Device(c10::kCPU), at::kFloat, Size::small};
  for (const auto& entry : kernel_operations()) {
    const auto operation = entry.make(place);
    EXPECT_GT(entry.held(place), operation.forward.bytes / 2) << entry.name;
    if (!operation.ours || !operation.aten || operation.inputs.empty() ||
        std::string(entry.name).find("dropout") != std::string::npos)
      continue;
    const at::NoGradGuard no_grad;
    const auto ours = operation.ours(operation.inputs), aten = operation.aten(operation.inputs);
    EXPECT_TRUE(at::allclose(ours, aten, 1e-4, 1e-5)) << entry.name;
  }
}

TEST(KernelBench, a_shard_agrees_with_atens_and_stands_beside_the_whole) {
  const OperationPlace place{.device = c10::Device(c10::kCPU), .type = at::kFloat, .shards = 2};
  for (const auto& entry : kernel_operations()) {
    if (entry.cut == nullptr || std::string(entry.axis) != "tp" || std::string(entry.name) == "linear_cross_entropy")
      continue;
    const auto operation = entry.make(place);
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::allclose(operation.ours(operation.inputs), operation.aten(operation.inputs), 1e-4, 1e-5))
        << entry.name;
  }
  auto options = tiny_kernels();
  options.only = {"mlp_norm_up", "packed_attention", "linear_cross_entropy"}, options.cuts["tp"] = {1, 2, 4};
  const auto result = run_kernel_bench(options);
  std::map<std::string, double> whole, flops;
  for (const auto& row : result.rows) {
    const auto name = row.operation + row.pass;
    if (row.shards == 1) {
      EXPECT_EQ(row.percent_of_uncut, 0) << row.name();
      whole[name] = row.percent(), flops[name] = row.cost.flops;
      continue;
    }
    EXPECT_DOUBLE_EQ(row.percent_of_uncut, 100 * row.percent() / whole.at(name)) << row.name();
    EXPECT_DOUBLE_EQ(row.cost.flops * static_cast<double>(row.shards), flops.at(name)) << row.name();
    EXPECT_EQ(row.size, base::format("small tp={}", row.shards));
  }
  EXPECT_EQ(whole.size(), 5u);
  EXPECT_EQ(result.rows.size(), 5u * 2 + 3);  // of two heads, four cannot have a shard each
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_NE(result.notes[0].find("packed_attention small tp=4"), std::string::npos) << result.notes[0];
  options.cuts["tp"] = {0};
  EXPECT_THROW(run_kernel_bench(options), base::ConfigError);
  options.cuts = {{"cp", {2}}, {"ep", {2}}}, options.only = {"ring_attention", "expert_exchange"};
  const auto others = run_kernel_bench(options);
  std::map<std::string, std::vector<KernelRow>> forwards;
  for (const auto& row : others.rows)
    if (row.pass == "forward") forwards[row.operation].push_back(row);
  const auto &ring = forwards["ring_attention"], &exchange = forwards["expert_exchange"];
  ASSERT_EQ(ring.size() + exchange.size(), 4u);
  EXPECT_EQ(ring[1].size + ", " + exchange[1].size, "small cp=2, small ep=2");
  EXPECT_DOUBLE_EQ(2 * ring[1].cost.flops, ring[0].cost.flops);
  EXPECT_GT(exchange[1].cost.bytes, exchange[0].cost.bytes) << "rows are sorted once more, there and back";
  EXPECT_DOUBLE_EQ(ring[1].percent_of_uncut, 100 * ring[1].percent() / ring[0].percent());
  options.cuts = {{"tp", {2}}}, options.only = {"gelu"};  // tp does not cut it
  EXPECT_THROW(run_kernel_bench(options), base::ConfigError);
}

TEST(KernelBench, each_row_has_time_rate_and_ceiling) {
  size_t backward = 0;
  for (const auto& row : tiny_kernel_result().rows) {
    EXPECT_GT(row.ours.median, 0) << row.name();
    EXPECT_GT(row.rate(), 0) << row.name();
    EXPECT_GT(row.percent(), 0) << row.name();
    const bool only_ours = row.operation == "nf4_dequantize" || row.operation == "fp8_quantize";
    EXPECT_EQ(row.ratio() > 0, !only_ours) << row.name();
    backward += row.pass == "backward";
  }
  EXPECT_EQ(tiny_kernel_result().rows.size() - backward, kernel_operations().size() - 2);  // two are a GPU's alone
  // Those two, AdamW, NF4 and fp8 have none; the loss is timed as a whole.
  EXPECT_EQ(backward, kernel_operations().size() - 6);
}

TEST(KernelBench, a_feed_forward_layer_is_shown_step_by_step) {
  std::map<std::string, double> shares;
  for (const auto& row : tiny_kernel_result().mlp) {
    EXPECT_GT(row.ours.median, 0) << row.step;
    shares[row.layer] += row.share;
  }
  for (const char* layer : {"mlp", "mlp dropout 0.1"}) EXPECT_NEAR(shares[layer], 1, 1e-9) << layer;
  EXPECT_NE(kernel_outcome(tiny_kernel_result()).table.find("product up, bias"), std::string::npos);
}

TEST(KernelBench, the_table_for_programs_has_the_layer_with_and_without_dropout) {
  const auto csv = kernel_outcome(tiny_kernel_result()).csv;
  EXPECT_NE(csv.find("\nmlp,forward,small,fp32,32 x 64 -> 256,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\nmlp dropout 0.1,forward,"), std::string::npos);
  EXPECT_NE(csv.find(",\"bias, dropout, residual\","), std::string::npos);
}

TEST(KernelBench, shapes_take_the_place_of_sizes) {
  auto options = tiny_kernels();
  options.only = {"bias_gelu", "mlp_up_bias_gelu"};
  options.shapes = {"2x3x10", "1x5x6"};
  const auto rows = run_kernel_bench(options).rows;
  ASSERT_EQ(rows.size(), 8u);  // forward and backward
  EXPECT_EQ(rows[0].shape, "6 x 10");
  EXPECT_EQ(rows[2].name(), "bias_gelu forward 1x5x6 fp32");
  EXPECT_EQ(rows[4].shape, "6 x 10 -> 40");
  options.only = {"adamw"};
  EXPECT_THROW(run_kernel_bench(options), base::ConfigError);
  options.only = {};
  for (const char* shape : {"", "4x512", "4x512x", "4x512x1024x2", "0x1x2", "-1x4x4", "1x1x3", "4,5,6", "4x 5x6",
                            "1099511627776x2x2", "99999999999999999999x1x2"}) {
    options.shapes = {shape};
    EXPECT_THROW(check_kernel_words(options), base::ConfigError) << shape;
  }
}

TEST(KernelBench, ceilings_are_of_bytes_or_of_products) {
  KernelRow row;
  row.cost = {4e9, 8e12};
  row.ours = {2, 2, 2, 3}, row.aten = {3, 3, 3, 3};
  row.ceiling = 1;
  EXPECT_DOUBLE_EQ(row.rate(), 2);
  EXPECT_DOUBLE_EQ(row.percent(), 50);
  EXPECT_DOUBLE_EQ(row.ratio(), 1.5);
  row.bound_by_products = true;
  EXPECT_DOUBLE_EQ(row.rate(), 4);
}

TEST(KernelBench, words_that_name_nothing_are_refused) {
  auto options = tiny_kernels();
  options.only = {"gelo"};
  try {
    run_kernel_bench(options);
    ADD_FAILURE();
  } catch (const base::ConfigError& error) {
    EXPECT_EQ(error.hint(), "did you mean gelu?");
  }
  options = tiny_kernels();
  options.sizes = {"huge"};
  EXPECT_THROW(run_kernel_bench(options), base::ConfigError);
  options = tiny_kernels();
  options.dtypes = {"fp8"};
  EXPECT_THROW(run_kernel_bench(options), base::ConfigError);
}

TEST(KernelBench, a_roofline_is_drawn_from_its_json) {
  const auto outcome = kernel_outcome(tiny_kernel_result());
  EXPECT_EQ(read_figures(outcome.json, "kernels.json").list.size(), tiny_kernel_result().rows.size());
  const auto roofline = roofline_outcome(outcome.json, "kernels.json");
  EXPECT_NE(roofline.pictures.at(0).second.find("gelu forward"), std::string::npos);
  EXPECT_NE(roofline.pictures.at(0).second.find("memory: "), std::string::npos);
  EXPECT_NE(roofline.table.find("cross_entropy backward small fp32"), std::string::npos);
}

TEST(KernelBench, a_roofline_of_something_else_is_refused) {
  for (const char* text : {"{}", "[]", R"({"bench": "train"})", R"({"bench": "kernels"})",
                           R"({"bench": "kernels", "device_name": "x", "copy_gb_s": 1, "rows": [{}]})"})
    EXPECT_THROW(roofline_outcome(text, "x.json"), base::CorruptError) << text;
}

}  // namespace
}  // namespace hyperion::bench

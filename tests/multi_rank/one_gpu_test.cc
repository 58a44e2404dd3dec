// Processes that share one GPU, and one that talks to itself over NCCL, train as one process alone does.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "tests/multi_rank/support_launch.h"
#include "tests/multi_rank/support_outcomes.h"

namespace hyperion::testing {
namespace {

// script/test-gpu-ranks runs these. Ranks share the GPU, so that what they send goes by way of the host over Gloo, on
// streams beside the computation.
TEST(OneGpu, shared_by_two_and_four_processes_trains_as_one_does) {
  if (!on_gpu()) GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  expect_as_alone(
      2,
      {"gpt2 zero=0 accumulate=2 steps=10", "gpt2 zero=1 host_optimizer=1 steps=10", "gpt2 zero=2 offload=1 steps=10",
       "gpt2 zero=3 accumulate=2 steps=10", "llama zero=0 steps=10", "llama zero=1 steps=10",
       "llama zero=2 recompute=full steps=10", "llama zero=3 recompute=selective steps=10", "moe zero=3 steps=10",
       "lora zero=3 steps=10", "resnet zero=0 rule=sgd steps=10", "resnet zero=2 sync=1 rule=sgd steps=10",
       "own zero=3 steps=10", "resnet zero=0 rule=sgd precision=bf16 steps=10", "llama zero=3 precision=bf16 steps=10",
       "llama zero=3 precision=fp8 steps=10", "gpt2 zero=0 precision=fp8 steps=10"});
  expect_as_alone(4, {"gpt2 zero=0 steps=10", "gpt2 zero=1 steps=10", "gpt2 zero=2 accumulate=2 steps=10",
                      "gpt2 zero=3 prefetch=2 steps=10", "llama zero=0 steps=10", "llama zero=1 steps=10",
                      "llama zero=2 steps=10", "llama zero=3 prefetch=0 steps=10", "vit zero=3 steps=10",
                      "moe zero=2 steps=10", "lora zero=1 steps=10", "gpt2 zero=3 layout=2x2 steps=10"});
}

// Shards of layers and stages, fused as on a GPU they are.
TEST(OneGpu, shared_by_shards_and_stages_trains_as_one_does) {
  if (!on_gpu()) GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  Cases two, four;
  for (const char* precision : {"fp32", "bf16", "fp8"})
    for (const char* family : {"gpt2", "llama keys=2", "qwen2", "moe", "lora drops=1", "vit"})
      for (const char* layout : {"tp=2", "tp=2 sequence=1", "pp=2 accumulate=2"})
        if (std::string(family) != "vit" || std::string(layout) != "tp=2 sequence=1")  // 17 patches
          two.push_back(base::format("{} layout={} precision={} steps=10", family, layout, precision));
  for (const char* precision : {"fp32", "bf16"})
    for (const char* layout : {"tp=4 heads=4 sequence=1", "tp=2,dp=2 zero=3 recompute=full", "pp=2,tp=2 accumulate=2"})
      four.push_back(base::format("llama layout={} precision={} steps=10", layout, precision));
  expect_as_alone(2, two);
  expect_as_alone(4, four);
}

// Parts of samples, and experts.
TEST(OneGpu, shared_by_parts_of_samples_and_experts_trains_as_one_does) {
  if (!on_gpu()) GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  Cases two, four;
  for (const char* precision : {"fp32", "bf16", "fp8"}) {
    for (const char* family :
         {"gpt2", "llama keys=2", "llama keys=2 packed=1", "qwen2 masked=1", "lora drops=1", "moe"})
      for (const char* layout : {"cp=2", "cp=2 context=ulysses recompute=full"})
        two.push_back(base::format("{} layout={} precision={} steps=10", family, layout, precision));
    for (const char* family : {"moe", "qwen_moe capacity=1.25"})
      two.push_back(base::format("{} layout=dp=2,ep=2 precision={} steps=10", family, precision));
  }
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* layout : {"cp=4 heads=4", "cp=2,dp=2 zero=3", "tp=2,cp=2 heads=4 sequence=1"})
      four.push_back(base::format("llama layout={} precision={} steps=10", layout, precision));
    for (const char* layout : {"dp=4,ep=2 zero=1", "pp=2,dp=2,ep=2 accumulate=2", "dp=2,tp=2,ep=2"})
      four.push_back(base::format("moe heads=4 seed=2 layout={} precision={} steps=10", layout, precision));
  }
  expect_as_alone(2, two);
  expect_as_alone(4, four);
}

TEST(OneGpu, of_one_process_over_nccl_trains_as_without) {
  if (!on_gpu()) GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  expect_as_alone(1,
                  {"gpt2 zero=0 accumulate=2 steps=10", "gpt2 zero=1 accumulate=2 steps=10",
                   "llama zero=2 accumulate=2 steps=10", "llama zero=3 accumulate=2 steps=10", "lora zero=3 steps=10",
                   "resnet zero=2 sync=1 rule=sgd steps=10", "llama zero=3 precision=bf16 steps=10"},
                  {{"HYPERION_TEST_WIRES", "nccl"}});
}

// As graphs, which hold the calls: as many in each step, and the same losses.
TEST(OneGpu, over_nccl_records_every_call_and_replays_it) {
  if (!on_gpu()) GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  Cases plain{"gpt2 zero=0 steps=10",
              "gpt2 zero=1 accumulate=2 steps=10",
              "llama zero=2 accumulate=2 masked=1 steps=10",
              "llama zero=3 masked=1 steps=10",
              "llama zero=3 recompute=full steps=10",
              "lora zero=3 steps=10",
              "vit zero=0 steps=10",
              "resnet zero=2 sync=1 rule=sgd steps=10",
              "gpt2 zero=0 reduce=fixed steps=10",
              "gpt2 zero=2 reduce=fixed steps=10",
              "llama zero=3 precision=bf16 steps=10",
              "llama zero=0 precision=fp16 steps=10",
              "gpt2 layout=tp=1 steps=10",
              "llama layout=tp=1 sequence=1 zero=3 masked=1 steps=10",
              "llama layout=tp=1 precision=bf16 steps=10",
              "moe layout=tp=1 precision=bf16 steps=10",
              "lora layout=tp=1 steps=10",
              "gpt2 layout=cp=1 steps=10",
              "llama layout=cp=1 context=ulysses masked=1 zero=3 steps=10",
              "llama layout=cp=1 packed=1 precision=bf16 steps=10",
              "moe layout=cp=1 precision=bf16 steps=10"};
  for (const Environment& environment : {Environment{{"HYPERION_TEST_WIRES", "nccl"}}, Environment{}}) {
    Cases cases = plain;
    for (const auto& text : plain) cases.push_back(text + " optimize=graph");
    const auto outcomes = train(1, cases, environment);
    for (const auto& text : plain) {
      const auto &one = outcomes.at(text), &other = outcomes.at(text + " optimize=graph");
      const double off = distance(one["losses"], other["losses"]);
      const auto made = [](const json& outcome) {
        std::map<std::string, int64_t> list;
        for (const auto& [key, count] : outcome["calls"].items())
          if (count.get<int64_t>() > 0) list[key] = count.get<int64_t>();
        return list;
      };
      int64_t calls = 0;
      for (const auto& [key, count] : made(other)) calls += count;
      std::printf("%-6s %-46s %3lld calls a step, %.1e\n", environment.empty() ? "alone" : "nccl", text.c_str(),
                  static_cast<long long>(calls), off);
      EXPECT_LT(off, text.find("precision") != text.npos ? 3e-2 : 1e-5) << text;
      EXPECT_TRUE(other["recorded"].get<bool>()) << text;
      EXPECT_EQ(made(one), made(other)) << text;
      EXPECT_TRUE(calls > 0 || environment.empty()) << text;
    }
  }
}

// Each forward and backward of a stage as a graph; of stages that are copied all but the last, whose gradients travel.
TEST(OneGpu, records_the_work_of_stages_and_replays_it) {
  if (!on_gpu()) GTEST_SKIP() << "HYPERION_TEST_DEVICE is not cuda";
  const std::map<int, Cases> plain = {
      {2,
       {"gpt2 layout=pp=2 accumulate=4 steps=10", "llama keys=2 layout=pp=2 accumulate=4 precision=bf16 steps=10",
        "qwen2 layout=pp=2 accumulate=1 precision=bf16 steps=10",
        "moe layout=pp=2 accumulate=4 precision=bf16 steps=10", "lora drops=1 layout=pp=2 accumulate=2 steps=10",
        "vit layout=pp=2 accumulate=2 precision=bf16 steps=10", "gpt2 layout=pp=2 accumulate=2 precision=fp8 steps=10",
        "llama layout=pp=2 accumulate=2 masked=1 steps=10", "llama layout=pp=2 accumulate=2 recompute=full steps=10"}},
      {4,
       {"gpt2 layout=pp=2,dp=2 accumulate=2 steps=10",
        "llama layout=pp=2,dp=2 zero=1 accumulate=2 precision=bf16 steps=10",
        "lora drops=1 layout=pp=2,dp=2 zero=1 accumulate=2 steps=10"}}};
  for (const auto& [ranks, texts] : plain) {
    Cases cases = texts;
    for (const auto& text : texts) cases.push_back(text + " optimize=graph");
    const auto outcomes = train(ranks, cases, {});
    for (const auto& text : texts) {
      const auto &one = outcomes.at(text), &other = outcomes.at(text + " optimize=graph");
      const double off = distance(one["losses"], other["losses"]);
      std::printf("stages  %-80s %.1e\n", text.c_str(), off);
      EXPECT_LT(off, text.find("precision") != text.npos ? 3e-2 : 1e-5) << text;
      EXPECT_TRUE(other["recorded"].get<bool>()) << text;
      EXPECT_EQ(one["calls"], other["calls"]) << text;
    }
  }
}

}  // namespace
}  // namespace hyperion::testing

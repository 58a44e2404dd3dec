// Any number of processes, and any cut of the state among them, trains as one process that computes the same
// micro-batches one after the other: 20 losses within 1e-5 (a bf16 run within its own rounding).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "hyperion/base/format.h"
#include "tests/multi_rank/support_cases.h"
#include "tests/multi_rank/support_launch.h"
#include "tests/multi_rank/support_outcomes.h"

namespace hyperion::testing {
namespace {

TEST(Losses, of_one_process_that_is_cut_are_those_of_one_that_is_not) {
  expect_as_alone(
      1, {"gpt2 zero=3 accumulate=2 recompute=full", "llama zero=1 accumulate=2 masked=1", "moe zero=2 accumulate=2",
          "resnet zero=3 accumulate=2 rule=sgd", "lora zero=3 accumulate=2", "own zero=2"});
}

TEST(Losses, of_two_processes_are_those_of_one) {
  expect_as_alone(2, {"gpt2 zero=1 accumulate=2 host_optimizer=1", "llama zero=2 accumulate=2 recompute=full masked=1",
                      "moe zero=3 recompute=selective", "vit zero=3 recompute=selective accumulate=2",
                      "resnet zero=0 accumulate=2 rule=sgd", "lora zero=2", "own zero=1", "qlora zero=0",
                      "qlora zero=3 accumulate=2", "resnet zero=3 sync=1 rule=sgd", "gpt2 zero=3 precision=bf16",
                      "llama zero=0 precision=fp8", "llama zero=3 accumulate=2 precision=fp8"});
}

// What people fine-tune: adapters over whole weights and over those in 4 bits, and documents that share rows. Rows have
// different numbers of targets, and so have the processes. On two processes blocks are fused as on a GPU.
TEST(Losses, of_adapters_and_of_documents_that_share_rows_are_those_of_one) {
  for (const int ranks : {2, 3}) {
    Cases cases;
    for (const std::string family :
         {"lora lr=0.01", "lora lr=0.01 packed=1", "qlora lr=0.01", "qlora lr=0.01 packed=1", "llama packed=1"})
      for (const std::string zero : {"0", "1", "2", "3"})
        // Of the last linear of a block so wide the changes lie beneath the weight.
        cases.push_back(
            base::format("{} zero={} steps=10 inner=80{}", family, zero, ranks == 2 ? " accumulate=2" : ""));
    expect_as_alone(ranks, cases, ranks == 2 ? Environment{{"HYPERION_FUSED_BLOCKS", "1"}} : Environment{});
  }
}

// Stages on several processes, under every schedule, with and without others that share the batch. Rows have different
// numbers of targets, and of 24 rows micro-batches are of unequal size.
TEST(Losses, of_the_stages_of_a_pipeline_are_those_of_one) {
  expect_as_alone(2, {"gpt2 layout=pp=2 accumulate=4 steps=10", "gpt2 layout=pp=2 accumulate=4 steps=10 schedule=gpipe",
                      "gpt2 layout=pp=2 accumulate=4 layers=4 steps=10 schedule=interleaved chunks=2",
                      "llama layout=pp=2 accumulate=5 steps=10 masked=1 recompute=full",
                      "vit layout=pp=2 accumulate=2 steps=10", "moe layout=pp=2 accumulate=4 steps=10",
                      "moe layout=pp=2 accumulate=2 masked=1 steps=10 layers=4 schedule=interleaved chunks=2",
                      "qwen2 layout=pp=2 accumulate=4 steps=10", "qwen_moe layout=pp=2 accumulate=3 steps=10 masked=1",
                      "lora layout=pp=2 accumulate=3 steps=10", "qlora layout=pp=2 accumulate=2 steps=10",
                      "llama layout=pp=2 accumulate=2 packed=1 steps=10",
                      "gpt2 layout=pp=2 accumulate=4 precision=bf16 steps=10", "gpt2 layout=pp=2 steps=10"});
  expect_as_alone(
      4, {"gpt2 layout=pp=4 accumulate=8 layers=4 steps=10",
          "llama layout=pp=4 accumulate=4 layers=8 steps=10 schedule=interleaved chunks=2 masked=1",
          "moe layout=pp=2,dp=2 zero=2 accumulate=2 steps=10", "gpt2 layout=pp=2,dp=2 accumulate=2 steps=10",
          "gpt2 layout=pp=2,dp=2 zero=1 accumulate=2 steps=10", "gpt2 layout=pp=2,dp=2 zero=2 accumulate=3 steps=10",
          "gpt2 layout=pp=2,dp=2 zero=3 accumulate=2 steps=10",
          "llama layout=pp=2,dp=2 zero=3 accumulate=2 steps=10 layers=4 schedule=interleaved chunks=2",
          "lora layout=pp=2,dp=2 zero=3 accumulate=2 steps=10", "vit layout=pp=2,dp=2 zero=1 accumulate=2 steps=10"});
}

// Gradients of weights apart from those of inputs, in rounds and in a V, whose first process has the last stage too.
TEST(Losses, of_divided_backwards_are_those_of_one) {
  const Cases two{"gpt2 layout=pp=2 accumulate=4 steps=10 schedule=zb-h1",
                  "gpt2 layout=pp=2 accumulate=4 layers=4 steps=10 schedule=zbv",
                  "llama layout=pp=2 accumulate=5 layers=4 steps=10 masked=1 recompute=full schedule=zbv",
                  "moe layout=pp=2 accumulate=4 layers=4 steps=10 schedule=dualpipev",
                  "qwen_moe layout=pp=2 accumulate=3 layers=4 steps=10 masked=1 schedule=zbv",
                  "qwen2 layout=pp=2 accumulate=4 steps=10 recompute=selective schedule=zb-h1",
                  "vit layout=pp=2 accumulate=4 layers=4 steps=10 drops=1 schedule=dualpipev",
                  "lora layout=pp=2 accumulate=3 layers=4 steps=10 drops=1 schedule=zbv",
                  "gpt2 layout=pp=2 accumulate=4 layers=4 precision=bf16 steps=10 schedule=zbv"};
  expect_as_alone(2, two);
  expect_as_alone(2, two, {{"HYPERION_FUSED_BLOCKS", "1"}});  // as on a GPU
  expect_as_alone(4, {"gpt2 layout=pp=4 accumulate=8 layers=8 steps=10 schedule=dualpipev",
                      "llama layout=pp=4 accumulate=4 layers=8 steps=10 schedule=zbv masked=1",
                      "gpt2 layout=pp=4 accumulate=6 layers=4 steps=10 schedule=zb-h1 recompute=full",
                      "gpt2 layout=pp=2,dp=2 zero=1 accumulate=3 layers=4 steps=10 schedule=zbv",
                      "moe layout=pp=2,dp=2 zero=0 accumulate=2 steps=10 schedule=zb-h1"});
}

// Layers cut among processes, with and without the sequence cut between them, with stages and with others that share
// the batch. Dropout is on.
TEST(Losses, of_the_shards_of_layers_are_those_of_one) {
  expect_as_alone(
      2,
      {"gpt2 layout=tp=2 steps=10", "gpt2 layout=tp=2 steps=10 sequence=1 accumulate=2",
       "gpt2 layout=tp=2 steps=10 sequence=1 recompute=full", "llama layout=tp=2 steps=10 masked=1",
       "llama layout=tp=2 steps=10 keys=2 sequence=1 masked=1 recompute=selective",
       "qwen2 layout=tp=2 steps=10 sequence=1", "vit layout=tp=2 steps=10 drops=1", "moe layout=tp=2 steps=10 masked=1",
       "moe layout=tp=2 steps=10 sequence=1 accumulate=2", "qwen_moe layout=tp=2 steps=10 sequence=1 masked=1",
       "lora layout=tp=2 steps=10 drops=1", "lora layout=tp=2 steps=10 sequence=1 drops=1",
       "qlora layout=tp=2 steps=10 width=128 inner=256 sequence=1 drops=1",
       "llama layout=tp=2 packed=1 steps=10 sequence=1", "gpt2 layout=tp=2 precision=bf16 steps=10",
       // One after the other, as others overlap; and so many rows that they travel in pieces.
       "gpt2 layout=tp=2 steps=10 optimize=reference", "llama layout=tp=2 steps=10 sequence=1 optimize=reference",
       "gpt2 layout=tp=2 batch=48 length=32 steps=10", "gpt2 layout=tp=2 batch=48 length=32 steps=10 sequence=1",
       "llama layout=tp=2 batch=48 length=32 steps=10 sequence=1 recompute=full precision=bf16"});
  expect_as_alone(
      4, {"gpt2 layout=tp=4 steps=10 heads=4 sequence=1", "llama layout=tp=4 steps=10 heads=4 keys=2",
          "moe layout=tp=2,dp=2 zero=2 accumulate=2 seed=3 steps=10",
          "gpt2 layout=tp=2,dp=2 zero=3 accumulate=2 steps=10 sequence=1", "gpt2 layout=tp=2,dp=2 zero=0 steps=10",
          "llama layout=tp=2,dp=2 zero=1 steps=10 sequence=1 masked=1",
          "gpt2 layout=pp=2,tp=2 accumulate=4 steps=10 sequence=1", "moe layout=pp=2,tp=2 accumulate=2 steps=10",
          "qlora layout=pp=2,tp=2 accumulate=2 steps=10 width=128 inner=256",
          "lora layout=tp=2,dp=2 zero=3 steps=10 drops=1"});
  // As on a GPU.
  expect_as_alone(
      2,
      {"gpt2 layout=tp=2 steps=10", "llama layout=tp=2 keys=2 sequence=1 steps=10", "moe layout=tp=2 steps=10",
       "qwen2 layout=tp=2 packed=1 steps=10", "lora layout=tp=2 drops=1 steps=10 inner=80",
       "qlora layout=tp=2 sequence=1 drops=1 width=128 inner=256 steps=10", "vit layout=tp=2 steps=10",
       "llama layout=tp=2 batch=48 length=32 steps=10 recompute=full",
       "lora layout=tp=2 batch=48 length=32 drops=1 steps=10 sequence=1"},
      {{"HYPERION_FUSED_BLOCKS", "1"}});
}

// What shards do, of a shard that is all there is: on one GPU it is tried over NCCL so, and recorded.
TEST(Losses, of_one_shard_are_those_of_what_is_not_cut) {
  expect_as_alone(1,
                  {"gpt2 layout=tp=1 steps=10", "llama layout=tp=1 sequence=1 steps=10 masked=1",
                   "moe layout=tp=1 steps=10", "lora layout=tp=1 steps=10", "vit layout=tp=1 steps=10"},
                  {{"HYPERION_WIRES_FOR_ONE", "1"}, {"HYPERION_FUSED_BLOCKS", "1"}});
}

// Products in 8 bits where layers are cut, lie on stages, or both. The sides of shards are multiples of 16. Scales that
// look back are agreed by all; else a shard is scaled by its own values, and differs by the rounding of 3 bits.
TEST(Losses, in_8_bits_of_shards_and_stages_are_those_of_one) {
  const std::string llama = "llama precision=fp8 steps=10 heads=4 keys=2 width=64 inner=96",
                    gpt2 = "gpt2 precision=fp8 steps=10";
  expect_as_alone(2, {gpt2 + " layout=tp=2", gpt2 + " layout=tp=2 sequence=1 accumulate=2", llama + " layout=tp=2",
                      llama + " layout=tp=2 sequence=1 recompute=full", gpt2 + " layout=pp=2 accumulate=4",
                      llama + " layout=pp=2 accumulate=4 layers=4 schedule=interleaved chunks=2",
                      llama + " layout=tp=2 scale=current", llama + " layout=tp=2 scale=rows sequence=1",
                      llama + " layout=pp=2 accumulate=2 scale=current schedule=gpipe",
                      "vit layout=tp=2 precision=fp8 batch=16 steps=10", "lora layout=tp=2 precision=fp8 steps=10"});
  expect_as_alone(4, {gpt2 + " layout=tp=2,dp=2 zero=3", llama + " layout=tp=2,dp=2 zero=1 sequence=1",
                      gpt2 + " layout=pp=2,tp=2 accumulate=2 sequence=1", llama + " layout=pp=2,tp=2 accumulate=2",
                      llama + " layout=pp=2,dp=2 zero=2 accumulate=2"});
}

// What the scales of 8 bits come from, and a checkpoint keeps: of every layer, whoever has it or a part of it.
TEST(Fp8Scales, of_any_layout_follow_the_largest_values_of_the_whole) {
  const std::string gpt2 = "gpt2 precision=fp8 clip=0 steps=", accumulate = " accumulate=2";
  for (const std::string steps : {"1", "3"}) {
    const auto alone = base::format("{}{}{}", gpt2, steps, accumulate);
    const auto whole = train(1, {alone}).at(alone)["largest"];
    ASSERT_EQ(whole.size(), 3u * 4 * 3) << "inputs, weights and gradients of 4 linears of 3 blocks";
    const auto compare = [&](int ranks, const std::string& layout) {
      const auto text = base::format("{}{}{}", gpt2, steps, layout);
      const auto found = train(ranks, {text}).at(text)["largest"];
      ASSERT_EQ(found.size(), whole.size()) << text;
      for (size_t i = 0; i < whole.size(); ++i) {
        const double wanted = whole[i].get<double>(), of_all = found[i].get<double>();
        EXPECT_GT(wanted, 0) << text << ": " << i;
        // Of the first step, weights are the same on all; the rest comes from products that were rounded otherwise.
        if (i % 3 == 1 && steps == "1") {
          EXPECT_EQ(of_all, wanted) << text << ": " << i;
        } else {
          EXPECT_NEAR(of_all, wanted, 0.1 * wanted) << text << ": " << i;
        }
      }
    };
    compare(2, " layout=tp=2 accumulate=2");
    compare(2, " layout=tp=2 accumulate=2 sequence=1");
    compare(2, " layout=pp=2 accumulate=2");
    compare(4, " layout=pp=2,tp=2 accumulate=2");
    compare(4, " layout=tp=2,dp=2 zero=1");
  }
}

// The tokens of each sample cut among processes, which send keys and values round or exchange tokens for heads. Dropout
// is on; of masked rows some processes count no target at all.
TEST(Losses, of_samples_cut_by_tokens_are_those_of_one) {
  Cases two, four;
  for (const char* context : {"ring", "ulysses"}) {
    for (const char* what :
         {"gpt2 layout=cp=2", "gpt2 layout=cp=2 accumulate=2 recompute=full", "llama layout=cp=2 masked=1",
          "llama layout=cp=2 keys=2 packed=1 recompute=selective", "qwen2 layout=cp=2 packed=1 zero=1",
          "moe layout=cp=2 zero=2", "qwen_moe layout=cp=2 masked=1 zero=3", "lora layout=cp=2 drops=1 zero=3",
          "qlora layout=cp=2 drops=1", "gpt2 layout=cp=2 zero=3 recompute=full", "llama layout=cp=2 precision=bf16",
          "gpt2 layout=cp=2 precision=fp8 recompute=full", "llama layout=cp=2 precision=fp8 zero=3 masked=1"})
      two.push_back(base::format("{} context={} steps=10", what, context));
    for (const char* what : {"gpt2 layout=cp=4 heads=4",
                             "llama layout=cp=4 heads=4 keys=2 packed=1",
                             "moe layout=cp=4 heads=4 seed=3",
                             "gpt2 layout=cp=2,dp=2 zero=0 accumulate=2",
                             "llama layout=cp=2,dp=2 zero=1 masked=1",
                             "moe layout=cp=2,dp=2 zero=2 accumulate=2",
                             "lora layout=cp=2,dp=2 zero=3 drops=1",
                             "llama layout=cp=2,dp=2x1 zero=2 packed=1",
                             "gpt2 layout=tp=2,cp=2 heads=4",
                             "llama layout=tp=2,cp=2 heads=4 keys=2 packed=1",
                             "moe layout=tp=2,cp=2 heads=4 masked=1",
                             "gpt2 layout=tp=2,cp=2 heads=4 sequence=1",
                             "llama layout=tp=2,cp=2 heads=4 keys=2 packed=1 sequence=1 zero=1",
                             "qwen_moe layout=tp=2,cp=2 heads=4 masked=1 sequence=1 recompute=full",
                             "gpt2 layout=pp=2,cp=2 accumulate=2",
                             "gpt2 layout=pp=2,cp=2 accumulate=4 layers=4 schedule=zbv",
                             "lora layout=pp=2,cp=2 accumulate=4 layers=4 schedule=dualpipev zero=1",
                             "llama layout=tp=2,cp=2 heads=4 width=64 keys=2 precision=fp8 sequence=1",
                             "lora layout=tp=2,cp=2 heads=4 keys=2 drops=1",
                             "qwen_moe layout=pp=2,cp=2 accumulate=2 masked=1"})
      four.push_back(base::format("{} context={} steps=10", what, context));
  }
  expect_as_alone(2, two);
  expect_as_alone(4, four);
  // As on a GPU.
  expect_as_alone(2,
                  {"gpt2 layout=cp=2 steps=10", "llama layout=cp=2 packed=1 steps=10",
                   "lora layout=cp=2 drops=1 inner=80 steps=10", "qwen2 layout=cp=2 context=ulysses steps=10"},
                  {{"HYPERION_FUSED_BLOCKS", "1"}});
  expect_as_alone(4,
                  {"gpt2 layout=tp=2,cp=2 heads=4 sequence=1 steps=10",
                   "llama layout=tp=2,cp=2 heads=4 sequence=1 context=ulysses steps=10"},
                  {{"HYPERION_FUSED_BLOCKS", "1"}});
}

// Several micro-batches are between forward and backward at once, and gradients add up to the same.
TEST(Losses, of_two_processes_do_not_depend_on_the_schedule) {
  const Cases cases = {"gpt2 zero=0 accumulate=3", "gpt2 zero=1 accumulate=3",
                       "llama zero=2 accumulate=3 recompute=full", "gpt2 zero=3 accumulate=3",
                       "moe zero=3 accumulate=3 prefetch=0"};
  Cases all;
  for (const auto& text : cases)
    for (const char* schedule : {"1f1b", "gpipe"}) all.push_back(text + " steps=8 schedule=" + schedule);
  auto found = train(2, all);
  for (const auto& text : cases)
    EXPECT_EQ(found[text + " steps=8 schedule=gpipe"]["digest"], found[text + " steps=8 schedule=1f1b"]["digest"])
        << text;
}

TEST(Losses, of_three_processes_are_those_of_one) {
  expect_as_alone(
      3, {"gpt2 zero=2 offload=1", "llama zero=3 recompute=selective masked=1 prefetch=2", "moe zero=1", "vit zero=1",
          "resnet zero=3 rule=sgd recompute=full", "lora zero=0", "own zero=0", "resnet zero=1 sync=1 rule=sgd"});
}

TEST(Losses, of_four_processes_are_those_of_one) {
  expect_as_alone(
      4, {"gpt2 zero=3 recompute=full", "gpt2 zero=0 clip=0", "llama zero=0 masked=1",
          "llama zero=3 prefetch=0 masked=1", "moe zero=0 recompute=full", "vit zero=2 recompute=full",
          "resnet zero=1 rule=sgd", "lora zero=1", "lora zero=3 recompute=full", "own zero=3",
          "qlora zero=3 recompute=full", "qlora zero=3 precision=bf16", "resnet zero=2 sync=1 rule=sgd recompute=full",
          "gpt2 zero=3 layout=2x2 recompute=full", "llama zero=2 layout=2x2 masked=1",
          "gpt2 zero=0 precision=bf16 wire=fp16", "llama zero=2 layout=2x2 precision=fp8"});
}

// Of 24 rows on 5 and 7 processes, and of 8 on 3 and 6, some have one more than others.
TEST(Losses, of_shares_that_are_not_equal_are_those_of_one) {
  expect_as_alone(3, {"gpt2 zero=2 batch=8 steps=10", "llama zero=3 accumulate=2 masked=1 batch=8 steps=10",
                      "moe zero=1 batch=8 steps=10", "resnet zero=0 rule=sgd batch=8 steps=10"});
  expect_as_alone(5, {"gpt2 zero=3 accumulate=2 steps=10", "llama zero=0 masked=1 steps=10", "vit zero=2 steps=10",
                      "lora zero=1 steps=10", "own zero=3 steps=10"});
  expect_as_alone(6, {"llama zero=2 batch=8 masked=1 steps=10", "moe zero=3 batch=8 steps=10"});
  expect_as_alone(7, {"gpt2 zero=1 steps=10", "llama zero=3 steps=10", "moe zero=0 accumulate=2 steps=10"});
}

TEST(Losses, added_up_by_the_library_are_those_of_one) {
  expect_as_alone(2, {"gpt2 zero=0 reduce=library steps=10", "llama zero=2 reduce=library accumulate=2 steps=10"});
  expect_as_alone(3, {"gpt2 zero=1 reduce=library steps=10", "llama zero=3 reduce=library masked=1 steps=10",
                      "resnet zero=0 reduce=library sync=1 rule=sgd steps=10"});
}

// Every family in every mode, with what can be switched on besides; script/test-matrix runs it.
TEST(Losses, DISABLED_matrix) {
  for (const int ranks : {1, 2, 3, 4}) {
    Cases cases;
    for (const std::string family : {"gpt2", "llama", "moe", "vit", "resnet", "lora", "qlora", "own"})
      for (const std::string zero : {"0", "1", "2", "3"})
        for (const std::string more : {"", " accumulate=2", " recompute=full", " accumulate=2 recompute=selective",
                                       " clip=0", " masked=1", " packed=1", " packed=1 recompute=full"}) {
          const bool images = family == "vit" || family == "resnet" || family == "own";
          if ((more == " masked=1" || more.starts_with(" packed=1")) && images) continue;
          if (more.find("recompute") != more.npos && family == "own") continue;
          cases.push_back(base::format("{} zero={}{}{}", family, zero, more,
                                       family == "resnet" ? " rule=sgd"
                                       : family == "moe"  ? " seed=3"
                                                          : ""));
          // In parts, synchronized batch norms see samples that no process alone takes together.
          if (family == "resnet" && more.find("accumulate") == more.npos) cases.push_back(cases.back() + " sync=1");
        }
    expect_as_alone(ranks, cases);
  }
}

// Adapters in 4 bits and experts go the farthest: where a gradient is next to nothing, Adam makes much of its rounding.
TEST(Losses, DISABLED_matrix_of_layouts) {
  for (const int ranks : {2, 4, 8}) {
    Cases cases;
    for (const auto& text : all_layouts(ranks)) cases.push_back(text + " steps=10");
    expect_as_alone(ranks, cases, {}, 1e-4);
  }
}

TEST(Losses, DISABLED_matrix_of_divided_backwards) {
  for (const int ranks : {2, 4}) {
    Cases cases;
    for (const auto& text : layouts_with_divided_backwards(ranks)) cases.push_back(text + " steps=10");
    expect_as_alone(ranks, cases, {}, 1e-4);
  }
}

// How much of what a slow link costs is hidden behind the computation; script/test-matrix runs it. It measures time, so
// it wants a machine with nothing else to do.
TEST(Overlap, DISABLED_hides_most_of_a_slow_link) {
  const Cases cases{"gpt2 zero=0 steps=17 layers=8 width=128 length=32",
                    "gpt2 zero=3 steps=17 layers=8 width=128 length=32 prefetch=2"};
  const Environment slow{{"HYPERION_SLOW_LINK", "200MB/s"}};
  Environment serial = slow;
  serial["HYPERION_SERIAL_COMM"] = "1";
  const auto fast = train(4, cases), hidden = train(4, cases, slow), shown = train(4, cases, serial);
  for (const auto& text : cases) {
    const auto seconds = [&](const Outcomes& outcomes) { return outcomes.at(text)["seconds"].get<double>() / 16; };
    const double cost = seconds(shown) - seconds(fast), left = seconds(hidden) - seconds(fast);
    std::printf("%s: %.0f ms a step, on a slow link %.0f ms, serial %.0f ms: %.0f%% of its cost is hidden\n",
                text.c_str(), 1e3 * seconds(fast), 1e3 * seconds(hidden), 1e3 * seconds(shown),
                100 * (1 - left / cost));
    EXPECT_GT(1 - left / cost, 0.6) << text;
  }
}

// Of the sums and gathers of hidden states; script/test-matrix runs it. It, too, wants a machine with nothing else to
// do.
TEST(Overlap, DISABLED_hides_sums_of_shards_of_layers) {
  const std::string family = "gpt2 heads=4 layers=2 width=256 length=32 batch=64 steps=4 layout=tp=2";
  const Cases cases{family, family + " sequence=1"};
  const Environment slow{{"HYPERION_SLOW_LINK", "100MB/s"}};
  Environment serial = slow;
  serial["HYPERION_SERIAL_COMM"] = "1";
  const auto fast = train(2, cases), hidden = train(2, cases, slow), shown = train(2, cases, serial);
  for (const auto& text : cases) {
    const auto seconds = [&](const Outcomes& outcomes) { return outcomes.at(text)["seconds"].get<double>() / 3; };
    const auto waited = [&](const Outcomes& outcomes) { return outcomes.at(text)["exposed"].get<double>() / 3; };
    std::printf(
        "%s: %.0f ms a step, on a slow link %.0f ms, serial %.0f ms; waited %.0f ms on the slow link, %.0f ms serial: "
        "%.0f%% less\n",
        text.c_str(), 1e3 * seconds(fast), 1e3 * seconds(hidden), 1e3 * seconds(shown), 1e3 * waited(hidden),
        1e3 * waited(shown), 100 * (1 - waited(hidden) / waited(shown)));
    if (text == family) {
      EXPECT_LT(waited(hidden), 0.7 * waited(shown)) << text;
    }
  }
}

// The same tree of sums over all micro-batches, and the same order of the norm.
TEST(SameBits, on_one_two_and_four_processes_for_every_zero) {
  std::map<std::string, std::set<std::string>> losses, validations, digests;  // by family
  for (const int ranks : {1, 2, 4}) {
    Cases cases;
    for (const std::string family : {"gpt2", "moe"})
      for (const std::string zero : {"0", "1", "2", "3"})
        cases.push_back(base::format("{} same_bits=1 steps=4 zero={} accumulate={}", family, zero, 8 / ranks));
    for (const auto& [text, outcome] : train(ranks, cases)) {
      const std::string family = text.substr(0, text.find(' '));
      losses[family].insert(outcome["losses"].dump() + outcome["norms"].dump());
      validations[family].insert(outcome["validation"].dump());
      digests[family].insert(outcome["digest"].get<std::string>());
    }
  }
  for (const auto& [family, values] : losses) EXPECT_EQ(values.size(), 1u) << family;
  for (const auto& [family, values] : validations) EXPECT_EQ(values.size(), 1u) << family;
  for (const auto& [family, values] : digests) EXPECT_EQ(values.size(), 1u) << family;
}

// Of each family the 8 parts of a batch on one process, and in layouts of several.
void expect_bits_of_one(const Cases& families, const std::map<int, Cases>& layouts,
                        const Environment& environment = {}) {
  const auto name = [](const std::string& family, const std::string& more) {
    return base::format("{} layers=4 steps=4 same_bits=1{}", family, more);
  };
  Cases alone;
  for (const auto& family : families) alone.push_back(name(family, " accumulate=8"));
  const auto expected = train(1, alone, environment);
  for (const auto& [ranks, list] : layouts) {
    Cases cases;
    for (const auto& family : families)
      for (const auto& layout : list) cases.push_back(name(family, " layout=" + layout));
    const auto found = train(ranks, cases, environment);
    for (size_t i = 0; i < cases.size(); ++i) {
      ASSERT_TRUE(found.contains(cases[i])) << cases[i];
      for (const char* what : {"losses", "norms", "validation", "digest"})
        EXPECT_EQ(found.at(cases[i]).at(what).dump(), expected.at(alone[i / list.size()]).at(what).dump())
            << cases[i] << ": " << what;
    }
  }
}

const Cases kFamilies = {"gpt2", "llama heads=4 keys=2 masked=1", "moe", "vit drops=1"};

TEST(SameBits, of_the_stages_of_a_pipeline_in_every_schedule) {
  expect_bits_of_one(
      kFamilies, {{2,
                   {"pp=2 accumulate=8", "pp=2 accumulate=8 schedule=gpipe zero=1",
                    "pp=2 accumulate=8 schedule=interleaved chunks=2", "pp=2 accumulate=8 schedule=gpipe chunks=2"}},
                  {3, {"pp=3 accumulate=8"}},
                  {4, {"pp=4 accumulate=8", "pp=4 accumulate=8 schedule=gpipe"}}});
}

TEST(SameBits, of_stages_whose_batch_is_shared_for_every_zero) {
  Cases layouts;
  for (const char* zero : {"0", "1", "2", "3"})
    for (const char* schedule : {"1f1b", "gpipe", "interleaved chunks=2"})
      layouts.push_back(base::format("pp=2,dp=2 accumulate=4 zero={} schedule={}", zero, schedule));
  expect_bits_of_one(kFamilies, {{4, layouts}});
}

// As on a GPU, and in a type in which a sum rounds to another bit wherever it is cut.
TEST(SameBits, of_stages_whose_blocks_are_fused_or_whose_weights_are_narrow) {
  const std::map<int, Cases> layouts{
      {2, {"pp=2 accumulate=8", "pp=2 accumulate=8 zero=3 schedule=interleaved chunks=2"}},
      {4, {"pp=2,dp=2 accumulate=4 zero=2"}}};
  const Cases families = {
      "gpt2",        "gpt2 precision=bf16",           "qwen2 precision=bf16", "qwen_moe precision=bf16",
      "vit drops=1", "lora drops=1 masked=1 inner=80"};
  expect_bits_of_one(families, layouts);
  expect_bits_of_one(families, layouts, {{"HYPERION_FUSED_BLOCKS", "1"}});
}

// A sum of two gradients has but one order. Only the norm is added up by pieces, in another order for each zero; where
// nothing is clipped it changes nothing, and any other bit is a fault that differences within rounding would hide.
TEST(SameBits, of_two_processes_that_clip_nothing_are_those_of_one_for_every_zero) {
  Cases cases;
  std::set<std::string> references;
  for (const std::string family :
       {"gpt2", "llama", "moe", "lora", "own", "qlora", "llama packed=1", "lora packed=1", "qlora packed=1"})
    for (const std::string zero : {"0", "1", "2", "3"}) {
      cases.push_back(base::format("{} clip=0 steps=6 zero={}", family, zero));
      references.insert(alone(cases.back(), 2));
    }
  const auto expected = train(1, Cases(references.begin(), references.end()));
  for (const auto& [text, outcome] : train(2, cases)) {
    const auto& reference = expected.at(alone(text, 2));
    EXPECT_EQ(outcome["losses"], reference["losses"]) << text;
    EXPECT_EQ(outcome["digest"], reference["digest"]) << text;
  }
}

// Two nodes of two ranks. Of a gather or reduce-scatter over all, two of the three other ranks are on the other node.
// Trajectories of bf16 part for any reason (another order of a sum changes the loss after 200 steps by half a percent),
// so that losses are compared in the mean over seeds.
void expect_zeropp_as_plain(const std::string& steps, const std::vector<int>& seeds) {
  const std::string model = " steps=" + steps + " layers=12 width=64 precision=bf16 lr=3e-4 seed=";
  const std::string plain = "llama zero=3" + model;
  const std::string plus = "llama zero=3 zeropp=weights,secondary,grads node_size=2" + model;
  Cases cases;
  for (const int seed : seeds)
    for (const auto& text : {plain, plus}) cases.push_back(text + std::to_string(seed));
  const auto found = train(4, cases);
  const auto &before_of = found.at(cases[0])["sent"], &after_of = found.at(cases[1])["sent"];
  const double before =
      2.0 / 3 *
      (before_of.value("weights all_gather weights", 0.0) + before_of.value("gradients reduce_scatter gradients", 0.0));
  const double after = 2.0 / 3 * after_of.value("weights all_gather weights", 0.0) +
                       after_of.value("across nodes all_to_all gradients", 0.0);
  std::printf("between nodes %.0f bytes a step, ZeRO++ %.0f: %.2f times fewer\n", before, after, before / after);
  EXPECT_GT(before / after, 3.5);
  EXPECT_EQ(after_of.value("gradients reduce_scatter gradients", 0.0), 0);
  const auto last = [&](const std::string& text) {
    double sum = 0;
    const auto& losses = found.at(text)["losses"];
    for (size_t i = losses.size() - 10; i < losses.size(); ++i) sum += losses[i].get<double>() / 10;
    return sum;
  };
  double of_plain = 0, of_plus = 0;
  for (size_t i = 0; i < cases.size(); i += 2) {
    const double a = last(cases[i]), b = last(cases[i + 1]);
    std::printf("seed %d: loss after %s steps %.4f, with ZeRO++ %.4f\n", seeds[i / 2], steps.c_str(), a, b);
    of_plain += a, of_plus += b;
  }
  EXPECT_LT(of_plus, 1.01 * of_plain);
}

TEST(ZeroPlusPlus, sends_less_between_nodes_and_learns_as_well) { expect_zeropp_as_plain("16", {1}); }
TEST(ZeroPlusPlus, DISABLED_learns_as_well_for_200_steps) { expect_zeropp_as_plain("200", {1, 2, 3}); }

}  // namespace
}  // namespace hyperion::testing

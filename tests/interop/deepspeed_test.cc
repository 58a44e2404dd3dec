#include "hyperion/interop/deepspeed.h"

#include <gtest/gtest.h>

#include <map>

#include "hyperion/base/error.h"

namespace hyperion::interop {
namespace {

using Values = std::map<std::string, std::string>;

Values deepspeed_values(const std::string& text, int64_t ranks = 0) {
  Values values;
  for (const auto& setting : read_deepspeed(text, "ds.json", ranks).settings) values[setting.name] = setting.value;
  return values;
}

std::string deepspeed_notes(const std::string& text) {
  std::string all;
  for (const auto& note : read_deepspeed(text, "ds.json").notes) all += note + "\n";
  return all;
}

std::string deepspeed_refusal(const std::string& text, int64_t ranks = 0) {
  try {
    read_deepspeed(text, "ds.json", ranks);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "read";
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Every key that workloads are known to use.
constexpr const char* kWhole = R"({
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "gradient_clipping": 0.5,
  "fp16": {"enabled": false, "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 12, "hysteresis": 2,
           "min_loss_scale": 1},
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "none"}, "overlap_comm": true, "contiguous_gradients": true,
    "reduce_bucket_size": 5e8, "stage3_prefetch_bucket_size": 5e7, "stage3_param_persistence_threshold": 1e5,
    "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true,
    "zero_quantized_weights": true, "zero_hpz_partition_size": 4, "zero_quantized_gradients": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 2e-4, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.05}},
  "scheduler": {"type": "WarmupDecayLR",
                "params": {"total_num_steps": 3000, "warmup_min_lr": 0, "warmup_max_lr": 2e-4,
                           "warmup_num_steps": 100}},
  "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true, "number_checkpoints": 4,
                               "contiguous_memory_optimization": false},
  "flops_profiler": {"enabled": true, "profile_step": 1}, "wall_clock_breakdown": false, "steps_per_print": 5
})";

TEST(DeepSpeed, every_key_of_the_experiments_becomes_a_setting_or_a_note) {
  const Values expected = {{"train.batch", "64"},
                           {"train.accumulate", "2"},
                           {"train.precision", "bf16"},
                           {"train.steps", "3000"},
                           {"train.log_every", "5"},
                           {"optim.clip", "0.5"},
                           {"optim.rule", "adamw"},
                           {"optim.lr", "0.0002"},
                           {"optim.beta1", "0.9"},
                           {"optim.beta2", "0.98"},
                           {"optim.epsilon", "1e-06"},
                           {"optim.weight_decay", "0.05"},
                           {"optim.schedule", "linear"},
                           {"optim.final_lr_ratio", "0"},
                           {"optim.warmup", "100"},
                           {"parallel.zero", "3"},
                           {"parallel.zeropp", "weights,secondary,grads"},
                           {"parallel.node_size", "4"},
                           {"memory.offload_optimizer", "true"},
                           {"memory.recompute", "full"},
                           {"memory.offload_activations", "true"}};
  EXPECT_EQ(deepspeed_values(kWhole), expected);
  EXPECT_EQ(read_deepspeed(kWhole, "ds.json").ranks, 8);
  const auto notes = deepspeed_notes(kWhole);
  for (const char* key :
       {"overlap_comm", "contiguous_gradients", "reduce_bucket_size", "stage3_prefetch_bucket_size",
        "stage3_param_persistence_threshold", "stage3_max_live_parameters", "stage3_max_reuse_distance",
        "stage3_gather_16bit_weights_on_model_save", "flops_profiler", "wall_clock_breakdown", "number_checkpoints"})
    expect_says(notes, key);
}

TEST(DeepSpeed, batch_sizes_that_do_not_agree_are_spoken_of) {
  const std::string three =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})";
  expect_says(deepspeed_refusal(three, 4),
              "train_batch_size: 64 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 x 4 proc");
  EXPECT_EQ(deepspeed_values(three, 8)["train.batch"], "64");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 50, "train_micro_batch_size_per_gpu": 4,
                                    "gradient_accumulation_steps": 2})"),
              "x a number of processes");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 50, "gradient_accumulation_steps": 4})"), "50 is no multiple");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 6, "train_micro_batch_size_per_gpu": 4})"), "6 is not");
}

TEST(DeepSpeed, what_is_left_out_of_the_batch_is_found_as_deepspeed_finds_it) {
  auto part = deepspeed_values(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})");
  EXPECT_EQ(part["train.batch_per_rank"], "8");
  EXPECT_EQ(part["train.accumulate"], "2");
  const std::string two = R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})";
  EXPECT_EQ(deepspeed_values(two)["train.accumulate"], "16");
  EXPECT_EQ(deepspeed_values(two, 4)["train.accumulate"], "4");
  EXPECT_EQ(deepspeed_values(R"({"train_batch_size": 64})").count("train.accumulate"), 0u);
}

TEST(DeepSpeed, auto_is_left_to_our_defaults_with_a_note) {
  const std::string text = R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR",
                  "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}})";
  EXPECT_EQ(deepspeed_values(text),
            (Values{{"optim.rule", "adamw"}, {"optim.schedule", "constant"}, {"parallel.zero", "2"}}));
  const auto notes = deepspeed_notes(text);
  expect_says(notes, "optimizer.params.lr: \"auto\"");
  expect_says(notes, "zero_optimization.reduce_bucket_size: \"auto\"");
}

TEST(DeepSpeed, what_a_section_leaves_out_is_deepspeeds_default_not_ours) {
  auto adam = deepspeed_values(R"({"train_batch_size": 8, "optimizer": {"type": "Adam"}})");
  EXPECT_EQ(adam["optim.beta2"], "0.999");
  EXPECT_EQ(adam["optim.weight_decay"], "0");
  EXPECT_EQ(adam["optim.lr"], "0.001");
  EXPECT_EQ(adam["optim.clip"], "0");
  EXPECT_EQ(adam["optim.schedule"], "constant");
  EXPECT_EQ(adam["optim.warmup"], "0");
  auto warm = deepspeed_values(R"({"train_batch_size": 8, "scheduler": {"type": "WarmupLR"}})");
  EXPECT_EQ(warm["optim.warmup"], "1000");
  EXPECT_EQ(warm["train.steps"], "10000");
  auto cosine = deepspeed_values(
      R"({"train_batch_size": 8, "optimizer": {"type": "sgd", "params": {"lr": 0.1, "momentum": 0.8}},
          "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 90, "warmup_num_steps": 9}}})");
  EXPECT_EQ(cosine["optim.rule"], "sgd");
  EXPECT_EQ(cosine["optim.lr"], "0.1");
  EXPECT_EQ(cosine["optim.momentum"], "0.8");
  EXPECT_EQ(cosine["optim.final_lr_ratio"], "0.0001");
}

TEST(DeepSpeed, the_loss_scale_and_buckets_are_counted_as_we_count_them) {
  auto values = deepspeed_values(R"({"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 12},
    "communication_data_type": "fp32", "zero_optimization": {"stage": 2, "reduce_bucket_size": 52428800}})");
  EXPECT_EQ(values["train.precision"], "fp16");
  EXPECT_EQ(values["train.loss_scale"], "4096");
  EXPECT_EQ(values["parallel.bucket"], "100");
  EXPECT_EQ(values["parallel.wire"], "fp32");
  auto large = deepspeed_values(R"({"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 64}})");
  EXPECT_EQ(large["train.loss_scale"], "1099511627776");
}

TEST(DeepSpeed, all_that_is_not_here_is_refused_at_once_and_by_name) {
  const auto refusal =
      deepspeed_refusal(R"({"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "nvme"},
                          "zero_quantized_weights": true},
    "optimizer": {"type": "Lamb", "params": {"lr": 1}}, "scheduler": {"type": "OneCycle", "params": {"x": 1}},
    "elasticity": {"enabled": true}, "sparse_attention": {"enabled": false}, "zero_optimisation": {"stage": 1},
    "mine": 1})");
  for (const char* part :
       {"fp16: is enabled, and bf16 too", "zero_optimization.offload_param: weights in host memory",
        "zero_optimization.offload_optimizer.device: must be none or cpu",
        "zero_optimization.zero_quantized_weights: needs stage 3", "optimizer.type: must be Adam, AdamW or SGD",
        "scheduler.type: must be WarmupLR", "elasticity:", "zero_optimisation: did you mean zero_optimization?",
        "mine: is no key of DeepSpeed's that is known here"})
    expect_says(refusal, part);
  EXPECT_EQ(refusal.find("sparse_attention"), refusal.npos) << refusal;
}

TEST(DeepSpeed, what_would_train_otherwise_is_refused) {
  const auto update = [](const std::string& type, const std::string& params) {
    return deepspeed_refusal(R"({"train_batch_size": 8, "optimizer": {"type": ")" + type + R"(", "params": )" + params +
                             "}}");
  };
  expect_says(update("Adam", R"({"adam_w_mode": false, "weight_decay": 0.1})"), "optimizer.params.adam_w_mode");
  EXPECT_EQ(update("Adam", R"({"adam_w_mode": false})"), "read");
  expect_says(update("AdamW", R"({"bias_correction": false})"), "bias_correction");
  expect_says(update("SGD", R"({"nesterov": true})"), "nesterov");
  expect_says(update("AdamW", R"({"learning_rate": 1})"), "optimizer.params.learning_rate");
}

TEST(DeepSpeed, values_of_a_wrong_type_or_size_are_named) {
  expect_says(deepspeed_refusal(R"({"train_batch_size": "many"})"),
              "train_batch_size: must be a whole number, not \"many\"");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 2.5})"), "must be a whole number, not 2.5");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 0})"), "train_batch_size: 0 is out of range");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 99999999999999999999999})"), "is out of range");
  expect_says(deepspeed_refusal(R"({"train_batch_size": -8})"), "-8 is out of range");
  expect_says(deepspeed_refusal(R"({"train_batch_size": [8]})"), "not a list");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "zero_optimization": 3})"),
              "zero_optimization: must be an object, not 3");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "zero_optimization": {"stage": 4}})"),
              "zero_optimization.stage: 4");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "bf16": {"enabled": 1}})"), "bf16.enabled: must be true");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "optimizer": {"params": {}}})"),
              "optimizer.type: is missing");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"betas": [1]}}})"),
              "a list of two numbers");
  expect_says(deepspeed_refusal(R"({"scheduler": {"type": "WarmupDecayLR", "params": {}}})"),
              "total_num_steps: is miss");
}

TEST(DeepSpeed, keys_are_told_whole_and_on_one_line) {
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "a\u0000b\n[c]\u001b": 1})"),
              "a\\x00b\\n[c]\\x1b: is no key of DeepSpeed's that is known here");
}

TEST(DeepSpeed, a_warmup_of_a_type_that_is_not_known_is_refused) {
  const auto of_type = [](const std::string& type, const std::string& steps) {
    return R"({"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": )" + steps +
           R"(, "warmup_type": ")" + type + R"("}}})";
  };
  for (const char* steps : {"10", "\"auto\""}) {
    for (const char* type : {"log", "linear"}) EXPECT_EQ(deepspeed_refusal(of_type(type, steps)), "read") << type;
    expect_says(deepspeed_refusal(of_type("log\\n[evil]", steps)),
                "scheduler.params.warmup_type: must be log or linear");
  }
}

TEST(DeepSpeed, a_file_that_is_none_says_so) {
  expect_says(deepspeed_refusal(""), "ds.json is not JSON");
  expect_says(deepspeed_refusal("{\"train_batch_size\": 8,"), "ds.json is not JSON");
  expect_says(deepspeed_refusal("[1, 2]"), "no object of DeepSpeed's settings");
  expect_says(deepspeed_refusal("null"), "no object of DeepSpeed's settings");
  expect_says(deepspeed_refusal(R"({"a": 1e999})"), "a number is too large");
  expect_says(deepspeed_refusal(std::string(100'000, '[')), "nests more than");
  expect_says(deepspeed_refusal(R"({"train_batch_size": 8, "train_batch_size": 16})"), "\"train_batch_size\" twice");
  expect_says(deepspeed_refusal(R"({"bf16": {"enabled": true, "enabled": false}})"), "\"enabled\" twice");
  EXPECT_EQ(deepspeed_refusal(R"({"fp16": {"enabled": false}, "bf16": {"enabled": false}})"), "read");
}

}  // namespace
}  // namespace hyperion::interop

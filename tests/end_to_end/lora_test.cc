// A run that trains an adapter: what it keeps, what comes back from it, and what it refuses.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::device_flags;
using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;

using Words = std::vector<std::string>;

constexpr const char* kRecipe = R"(
[train]
steps = 12
batch = 8
accumulate = 2
length = 20
[data]
source = "sums"
digits = 2
[optim]
lr = 1e-2
warmup = 2
[checkpoint]
every = 4
)";

class LoraRun : public ::testing::Test {
 protected:
  LoraRun() {
    testing::write_file(scratch_.path() / "recipe.toml", kRecipe);
    const auto done = train("base", {"--model.width=32", "--model.heads=2", "--model.layers=2", "--model.context=32"});
    EXPECT_EQ(done.code, 0) << done.err;
  }

  Finished train(const std::string& name, const Words& flags, const std::map<std::string, std::string>& faults = {}) {
    return run(scratch_, Words{"train", scratch_.path() / "recipe.toml", "--run", name} + device_flags() + flags,
               faults);
  }
  Finished adapt(const std::string& name, const Words& flags = {},
                 const std::map<std::string, std::string>& faults = {}) {
    return train(name, Words{"--model.from=base", "--lora.rank=4", "--lora.dropout=0.1"} + flags, faults);
  }
  std::string shard(const std::string& name) {
    return testing::read_file(scratch_.runs() / name / "checkpoints/step-12/shard-0.safetensors");
  }

  Scratch scratch_;
};

TEST_F(LoraRun, keeps_the_adapter_alone_and_resumes_bit_exactly) {
  ASSERT_EQ(adapt("whole").code, 0);
  EXPECT_EQ(shard("whole").find("c_attn.weight"), std::string::npos);
  EXPECT_NE(shard("whole").find("model.transformer.h.1.attn.c_attn.lora_A.default.weight"), std::string::npos);
  EXPECT_EQ(adapt("killed", {}, {{"HYPERION_FAULTS", "train.step=kill@7"}}).code, 128 + SIGKILL);
  const Finished again = run(scratch_, {"resume", "killed"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "killed"), testing::losses(scratch_.runs() / "whole"));
  EXPECT_TRUE(shard("killed") == shard("whole"));
}

TEST_F(LoraRun, trains_through_4_bit_weights) {
  const Finished done = adapt("small", {"--model.quantize=nf4", "--precision=bf16"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "small").size(), 12u);
}

TEST_F(LoraRun, comes_out_merged_or_as_an_adapter_and_can_be_started_from) {
  ASSERT_EQ(adapt("tuned").code, 0);
  const std::string merged = scratch_.path() / "merged", adapter = scratch_.path() / "adapter";
  EXPECT_EQ(run(scratch_, {"export", "tuned", "--to", merged}).code, 0);
  EXPECT_NE(testing::read_file(merged + "/model.safetensors").find("c_attn.weight"), std::string::npos);
  EXPECT_EQ(testing::read_file(merged + "/model.safetensors").find("lora"), std::string::npos);
  EXPECT_EQ(run(scratch_, {"export", "tuned", "--as-adapter", "--to", adapter}).code, 0);
  const std::string described = testing::read_file(adapter + "/adapter_config.json");
  EXPECT_NE(described.find("/base/checkpoints/step-12\""), std::string::npos) << described;
  const Words ask = {"--prompt", "12+34:", "--tokens", "6", "--device", "cpu"};
  const Finished own = run(scratch_, Words{"generate", "tuned"} + ask);
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(run(scratch_, Words{"generate", "base", "--adapter", "mine=" + adapter} + ask).out, own.out);
  EXPECT_EQ(train("on", {"--model.from=tuned", "--steps=2", "--optim.warmup=0"}).code, 0);
}

TEST_F(LoraRun, is_written_in_the_type_it_was_trained_in_whatever_its_base_is_kept_in) {
  ASSERT_EQ(train("narrow",
                  {"--model.width=32", "--model.heads=2", "--model.layers=2", "--model.context=32", "--precision=bf16"})
                .code,
            0);
  const std::string merged = scratch_.path() / "merged", adapter = scratch_.path() / "adapter";
  ASSERT_EQ(
      train("tuned", {"--model.from=narrow", "--lora.rank=4", "--precision=fp32", "--lora.modules_to_save=ln_f"}).code,
      0);
  const Finished alone = run(scratch_, {"export", "tuned", "--as-adapter", "--to", adapter});
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.err.find("rounded"), std::string::npos) << alone.err;
  const std::string weights = testing::read_file(adapter + "/adapter_model.safetensors");
  EXPECT_NE(weights.find("\"F32\""), std::string::npos);
  EXPECT_EQ(weights.find("\"BF16\""), std::string::npos);
  const Finished whole = run(scratch_, {"export", "tuned", "--to", merged});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.err.find("the adapter is in fp32; merged, it is rounded to bf16"), std::string::npos) << whole.err;
  EXPECT_EQ(testing::read_file(merged + "/model.safetensors").find("\"F32\""), std::string::npos);
  ASSERT_EQ(adapt("alike").code, 0);
  EXPECT_EQ(run(scratch_, {"export", "alike", "--to", scratch_.path() / "alike"}).err.find("rounded"),
            std::string::npos);
}

TEST_F(LoraRun, of_experts_says_at_its_start_that_it_cannot_be_written_for_peft) {
  const Words few = {"--steps=1", "--optim.warmup=0"};
  ASSERT_EQ(train("mixture", few + Words{"--model.preset=mixtral-tiny", "--model.layers=1"}).code, 0);
  const Words from = few + Words{"--model.from=mixture", "--lora.rank=2"};
  const Finished experts = train("experts", from);
  ASSERT_EQ(experts.code, 0) << experts.err;
  const size_t said = experts.err.find("experts and routers get adapters, of which PEFT has none");
  EXPECT_NE(said, std::string::npos) << experts.err;
  EXPECT_LT(said, experts.err.find("step 1")) << experts.err;
  EXPECT_EQ(run(scratch_, {"export", "experts", "--as-adapter", "--to", scratch_.path() / "experts"}).code, 2);
  const Finished attention = train("attention", from + Words{"--lora.targets=q_proj,v_proj"});
  ASSERT_EQ(attention.code, 0) << attention.err;
  EXPECT_EQ(attention.err.find("PEFT"), std::string::npos) << attention.err;
  EXPECT_EQ(run(scratch_, {"export", "attention", "--as-adapter", "--to", scratch_.path() / "attention"}).code, 0);
}

TEST_F(LoraRun, refuses_settings_that_contradict) {
  const Finished alone = train("x", {"--lora.rank=4"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("model.from"), std::string::npos);
  const Finished frozen = train("x", {"--model.from=base", "--model.quantize=nf4"});
  EXPECT_EQ(frozen.code, 2);
  EXPECT_NE(frozen.err.find("lora.rank"), std::string::npos);
  const Finished nowhere = adapt("x", {"--lora.targets=q_proj"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_NE(nowhere.err.find("c_attn"), std::string::npos) << nowhere.err;
  const Finished misspelt = adapt("x", {"--lora.targets=c_attn,c_porj"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_NE(misspelt.err.find("names \"c_porj\""), std::string::npos) << misspelt.err;
}

}  // namespace
}  // namespace hyperion

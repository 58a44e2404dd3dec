// Adapters, over whole weights and over those in 4 bits, and documents that share rows: a run of them is the same run
// to the last bit when it is made twice, and when it is killed in the middle and resumed. Blocks are fused, on a CPU
// too.
#include <signal.h>

#include "tests/end_to_end/support_prepare.h"

namespace hyperion::testing {
namespace {

constexpr int kTunedSteps = 8;

struct FineTuning {
  std::string name;
  Words flags;
};

class FineTune : public Prepare, public ::testing::WithParamInterface<FineTuning> {
 protected:
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 120; ++i) lines += sentence(random_).substr(1, 5 + random_() % 40) + "\n";
    write_file(in("lines.txt"), lines);
    const std::string shape =
        "preset = \"llama-tiny\"\nlayers = 2\nheads = 2\nkey_value_heads = 1\nwidth = 64\ninner = 144\ncontext = 64\n";
    write_file(in("base.toml"), recipe(shape));
    write_file(in("tuned.toml"), recipe("from = \"base\"\n"));
    expect_fine(hyperion({"data", "prepare", in("base.toml")}));
    expect_fine(hyperion(train("base.toml", "base") + Words{"--steps", "2", "--optim.warmup=0"}));
  }
  std::string recipe(const std::string& model) const {
    return "[prepare]\nfiles = [\"" + in("lines.txt") + "\"]\nvalidation = 0.1\nformat = \"lines\"\noutput = \"" +
           in("set") + "\"\n[data]\nsource = \"prepared\"\n[train]\nsteps = " + std::to_string(kTunedSteps) +
           "\nbatch = 6\naccumulate = 2\nlength = 48\n[model]\n" + model +
           "[optim]\nlr = 1e-2\nwarmup = 2\n[eval]\nevery = 3\nbatches = 1\n[checkpoint]\nevery = 3\nkeep = 9\n";
  }
  Finished tune(const std::string& name, const std::string& faults = "") {
    return hyperion(train("tuned.toml", name) + GetParam().flags, fused(faults));
  }
  static std::map<std::string, std::string> fused(const std::string& faults = "") {
    return {{"HYPERION_FUSED_BLOCKS", "1"}, {"HYPERION_FAULTS", faults}};
  }
  std::string state(const std::string& name) const {
    const auto shard = "checkpoints/step-" + std::to_string(kTunedSteps) + "/shard-0.safetensors";
    return read_file(scratch_.runs() / name / shard);
  }
  void expect_same(const std::string& name, const std::string& other) const {
    EXPECT_EQ(losses(scratch_.runs() / name), losses(scratch_.runs() / other));
    EXPECT_TRUE(state(name) == state(other)) << "the last weights and optimizer state differ";
  }
};

TEST_P(FineTune, gives_the_same_bits_again_and_after_a_kill_and_a_resume) {
  expect_fine(tune("once"));
  ASSERT_EQ(losses(scratch_.runs() / "once").size(), static_cast<size_t>(kTunedSteps));
  EXPECT_GT(state("once").size(), 1000u);
  expect_fine(tune("twice"));
  expect_same("twice", "once");
  EXPECT_EQ(tune("killed", "train.step=kill@5").code, 128 + SIGKILL);
  const Finished again = hyperion({"resume", "killed"}, fused());
  expect_fine(again);
  EXPECT_TRUE(says(again.err, "resuming after step 3")) << again.err;
  expect_same("killed", "once");
}

std::vector<FineTuning> fine_tunings() {
  const Words adapters{"--lora.rank=4", "--lora.dropout=0.1"}, in_4_bits{"--model.quantize=nf4"};
  const Words packed{"--data.packing=whole", "--data.reset=true"}, in_bf16{"--precision=bf16"};
  return {{"adapters", adapters},
          {"adapters_over_4_bits", adapters + in_4_bits},
          {"documents_that_share_rows", packed},
          {"adapters_and_documents", adapters + packed},
          {"adapters_over_4_bits_and_documents_in_bf16", adapters + in_4_bits + packed + in_bf16}};
}

INSTANTIATE_TEST_SUITE_P(Of, FineTune, ::testing::ValuesIn(fine_tunings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hyperion::testing

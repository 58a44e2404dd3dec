// Benches and comparisons as a user runs them.
#include <gtest/gtest.h>

#include <set>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::run;
using testing::Scratch;
using Words = std::vector<std::string>;

class Bench : public ::testing::Test {
 protected:
  std::string folder(const char* name) { return (scratch_.path() / name).string(); }
  Scratch scratch_;
};

constexpr const char* kResult = R"({"bench": "train", "device_name": "CPU", "figures": [
  {"name": "step", "unit": "ms", "better": "lower", "value": %, "low": %, "high": %}]})";

std::string result(const std::string& value) {
  std::string text = kResult;
  for (size_t at; (at = text.find('%')) != text.npos;) text.replace(at, 1, value);
  return text;
}

TEST_F(Bench, a_result_compared_with_itself_passes) {
  const auto bench =
      run(scratch_, {"bench", "train", "tiny-gpt2", "--steps", "2", "--device", "cpu", "--folder", folder("a")});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_NE(bench.out.find("tiny-gpt2"), std::string::npos);
  const auto compared = run(scratch_, {"compare", folder("a"), folder("a/train.json")});
  EXPECT_EQ(compared.code, 0) << compared.err;
  for (const char* name : {"train.json", "train.csv", "train.svg", "train.txt"})
    EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "a" / name)) << name;
}

TEST_F(Bench, a_regression_is_exit_code_1) {
  testing::write_file(scratch_.path() / "a.json", result("100"));
  testing::write_file(scratch_.path() / "b.json", result("104"));
  EXPECT_EQ(run(scratch_, {"compare", folder("a.json"), folder("b.json")}).code, 1);
  EXPECT_EQ(run(scratch_, {"compare", folder("b.json"), folder("a.json")}).code, 0);
  EXPECT_EQ(run(scratch_, {"compare", folder("a.json"), folder("b.json"), "--fail-over", "5%"}).code, 0);
}

TEST_F(Bench, what_cannot_be_compared_is_told_with_a_hint) {
  testing::write_file(scratch_.path() / "a.json", result("100"));
  auto other = result("100");
  testing::write_file(scratch_.path() / "b.json", other.replace(other.find("train"), 5, "kernels"));
  testing::write_file(scratch_.path() / "c.json", "{}");
  const auto kinds = run(scratch_, {"compare", folder("a.json"), folder("b.json")});
  EXPECT_EQ(kinds.code, 2);
  EXPECT_NE(kinds.err.find("`bench train`, B of `bench kernels`"), std::string::npos) << kinds.err;
  const auto no_result = run(scratch_, {"compare", folder("a.json"), folder("c.json")});
  EXPECT_EQ(no_result.code, 2);  // 1 is a regression
  EXPECT_EQ(run(scratch_, {"compare", folder("a.json"), folder("nowhere")}).code, 2);
  EXPECT_NE(no_result.err.find("hint: "), std::string::npos) << no_result.err;
  EXPECT_EQ(run(scratch_, {"compare", folder("a.json"), folder("a.json"), "--fail-over", "much"}).code, 2);
}

TEST_F(Bench, settings_that_contradict_each_other_are_refused) {
  for (const char* setting : {"train.device=cuda", "train.optimize=max", "train.precision=tf32"}) {
    const auto done = run(scratch_, {"bench", "train", "tiny-gpt2", "--set", setting});
    EXPECT_EQ(done.code, 2) << setting;
    EXPECT_NE(done.err.find("this command sets that itself"), std::string::npos) << done.err;
  }
  EXPECT_EQ(run(scratch_, {"bench", "train", "tiny-gpt2", "--peer-modes", "eager"}).code, 2);
}

TEST_F(Bench, adapters_stand_beside_random_weights) {
  for (const char* form : {"none", "nf4"}) {
    const auto done = run(scratch_, {"bench", "train", "tiny-llama", "--steps", "1", "--device", "cpu", "--set",
                                     "lora.rank=4", "--set", std::string("model.quantize=") + form});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("lora.rank=4"), std::string::npos) << done.out;
  }
  const auto resnet = run(scratch_, {"bench", "train", "tiny-resnet", "--device", "cpu", "--set", "lora.rank=4"});
  EXPECT_EQ(resnet.code, 2);
  EXPECT_NE(resnet.err.find("is a ResNet"), std::string::npos) << resnet.err;
  const auto few = run(scratch_, {"bench", "train", "tiny-llama-lora", "--device", "cpu", "--set",
                                  "lora.targets=q_proj", "--peers", "--peer-modes", "eager"});
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.err.find("beside all linear layers"), std::string::npos) << few.err;
}

TEST_F(Bench, packed_documents_climb_a_ladder_and_stand_beside_both_forms_of_peers) {
  EXPECT_EQ(run(scratch_, {"bench", "ladder", "tiny-llama-lora-packed", "--optimize", "reference,fused", "--steps", "1",
                           "--device", "cpu"})
                .code,
            0);
  const auto done = run(scratch_,
                        {"bench", "train", "tiny-llama-packed", "--steps", "1", "--device", "cpu", "--peers",
                         "--peer-modes", "eager,compile+padded"},
                        {{"HYPERION_PYTHON", "/nowhere/python"}});
  EXPECT_EQ(done.code, 0) << done.err;
  for (const char* mode : {"torch eager+packed", "torch eager+padded", "torch compile+padded"})
    EXPECT_NE(done.out.find(mode), std::string::npos) << done.out;
  EXPECT_EQ(done.out.find("torch compile+packed"), std::string::npos) << done.out;
  EXPECT_EQ(run(scratch_, {"bench", "train", "tiny-llama-packed", "--peers", "--peer-modes", "compile+graphs"}).code,
            2);
}

TEST_F(Bench, workloads_are_listed_with_what_they_are) {
  const auto list = run(scratch_, {"bench", "workloads"});
  EXPECT_NE(list.out.find("qwen2.5-3b-lora-packed  bf16  the same with LoRA of rank 16"), std::string::npos)
      << list.out;
  const auto lines = run(scratch_, {"bench", "workloads", "--json"});
  EXPECT_EQ(lines.code, 0) << lines.err;
  EXPECT_NE(lines.out.find("\"documents\":[[["), std::string::npos);
}

TEST_F(Bench, a_list_takes_one_word_and_peers_that_cannot_start_cost_nothing_of_ours) {
  const auto done = run(scratch_,
                        {"bench", "train", "--optimize", "fused", "tiny-gpt2", "--steps", "1", "--device", "cpu",
                         "--peers", "--peer-modes", "eager", "--folder", folder("p")},
                        {{"HYPERION_PYTHON", "/nowhere/python"}});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("torch eager"), std::string::npos) << done.out;
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "p" / "train.json"));
}

TEST_F(Bench, results_of_one_second_have_folders_of_their_own) {
  std::set<std::string> folders;
  for (int i = 0; i < 3; ++i) {
    const auto done = run(scratch_, {"comm-check", "--sizes", "8", "--seconds", "0.001", "--no-pairs"});
    EXPECT_EQ(done.code, 0) << done.err;
    folders.insert(done.out.substr(done.out.find("files: ")));
  }
  EXPECT_EQ(folders.size(), 3u);
}

TEST_F(Bench, what_is_refused_leaves_no_folder) {
  EXPECT_NE(run(scratch_, {"bench", "hardware", "--dtypes", "fp8", "--device", "cpu"}).code, 0);
  EXPECT_NE(run(scratch_, {"bench", "data", "--set", "nowhere"}).code, 0);
  EXPECT_NE(run(scratch_, {"bench", "train", "nonesuch", "--device", "cpu"}).code, 0);
  EXPECT_TRUE(testing::tree(scratch_.runs()).empty());
}

TEST_F(Bench, more_ranks_than_a_job_may_have_are_refused_before_anything_is_held_for_them) {
  const auto done = run(scratch_, {"comm-check", "--rank", "0", "--world-size", "99999999", "--master", "127.0.0.1:1"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("more ranks than a job may have"), std::string::npos) << done.err;
}

TEST_F(Bench, a_wrong_workload_clears_no_choices) {
  const auto file = scratch_.path() / "cache" / "hyperion" / "tuning.jsonl";
  std::filesystem::create_directories(file.parent_path());
  testing::write_file(file, "");
  const std::map<std::string, std::string> cache = {{"XDG_CACHE_HOME", (scratch_.path() / "cache").string()}};
  EXPECT_EQ(run(scratch_, {"tune", "tiny-gtp2", "--clear"}, cache).code, 2);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(run(scratch_, {"tune", "--clear"}, cache).code, 0);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Bench, a_start_is_timed_in_processes_of_its_own) {
  const auto done = run(scratch_, {"bench", "startup", "tiny-gpt2", "--repeats", "1", "--device", "cpu"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("exec to end of first step"), std::string::npos) << done.out;
}

TEST_F(Bench, wires_are_tried_by_the_ranks_of_a_launch) {
  const auto bench = run(scratch_, {"launch", "-n", "2", "--", "bench", "comm", "--device", "cpu", "--max", "1KiB",
                                    "--seconds", "0.01", "--folder", folder("comm")});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_NE(bench.out.find("busbw GB/s"), std::string::npos) << bench.out;
  const auto compared = run(scratch_, {"compare", folder("comm"), folder("comm"), "--json"});
  EXPECT_EQ(compared.code, 0) << compared.err;
  const auto check = run(scratch_, {"launch", "-n", "3", "--", "comm-check", "--device", "cpu", "--sizes", "1KiB",
                                    "--seconds", "0.01", "--tolerance", "1000"});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("all is well"), std::string::npos) << check.out;
}

TEST_F(Bench, nccl_is_set_up_from_the_recipe_and_only_with_variables_of_its_own) {
  const auto recipe = testing::tiny_recipe(scratch_).string();
  const auto done = run(
      scratch_,
      {"train", recipe, "--steps", "5", "--run", "set", "--device", "cpu", "--nccl.preset=mi250x", "--nccl.p2p=off"},
      {{"NCCL_CROSS_NIC", "0"}});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("NCCL_P2P_DISABLE=1 (nccl.p2p)"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("NCCL_CROSS_NIC stays 0"), std::string::npos) << done.err;
  EXPECT_EQ(run(scratch_, {"train", recipe, "--nccl.variables=LD_PRELOAD=x.so"}).code, 2);
  const auto doctor = run(scratch_, {"doctor", "--quick"}, {{"NCCL_DEBUG", "INFO"}});
  EXPECT_NE(doctor.out.find("NCCL_DEBUG=INFO"), std::string::npos) << doctor.out;
}

TEST_F(Bench, an_unknown_workload_is_a_usage_error) {
  const auto done = run(scratch_, {"bench", "ladder", "tiny-gtp2"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("did you mean tiny-gpt2?"), std::string::npos) << done.err;
}

TEST_F(Bench, tune_says_what_it_needs) {
  EXPECT_EQ(run(scratch_, {"tune"}).code, 2);
  const auto wrong = run(scratch_, {"tune", "tiny-gpt"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean tiny-gpt2"), std::string::npos) << wrong.err;
  EXPECT_EQ(run(scratch_, {"tune", "tiny-gpt2", "--device", "cpu"}).code, 3);
  const auto list = run(scratch_, {"tune", "--list"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_NE(list.out.find("tuning.jsonl"), std::string::npos) << list.out;
}

TEST_F(Bench, what_is_tuned_once_is_known_to_the_next_run_until_it_is_cleared) {
  const Words tune = {"tune", "tiny-gpt2", "--precision", "bf16"};
  const auto first = run(scratch_, tune);
  if (first.code == 3) GTEST_SKIP() << "it needs a GPU";
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("measured now"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("attention 2x32"), std::string::npos) << first.out;
  const auto again = run(scratch_, tune);
  EXPECT_EQ(again.out.find("measured now"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("known"), std::string::npos) << again.out;
  EXPECT_EQ(run(scratch_, {"tune", "--clear"}).code, 0);
  EXPECT_EQ(run(scratch_, {"tune", "--list"}).out.find("product"), std::string::npos);
}

}  // namespace
}  // namespace hyperion

// The gradients of a model whose layers, stages and state lie on several processes, put together again and held against
// those of one process, tensor by tensor. After one step without clipping Adam's first moment is a tenth of the
// gradient: so it is read from checkpoints, which every layout writes and every other must be able to read.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/load.h"
#include "tests/multi_rank/support_cases.h"

namespace hyperion::testing {
namespace {

constexpr const char* kFirst = "optimizer.first.";

class Gradients : public ::testing::Test {
 protected:
  Gradients() : folder_(base::format("{}/gradients-{}", std::filesystem::temp_directory_path().string(), getpid())) {}
  ~Gradients() override { std::filesystem::remove_all(folder_); }

  // Prints of each case the tensor that is farthest off, as a part of what it may be.
  void expect_as_alone(int ranks, const Cases& cases) {
    Cases alone_cases, cut_cases;
    std::map<std::string, std::string> saved;  // by what one process does
    for (const auto& text : cases) {
      const auto one = alone(text, ranks);
      if (saved.try_emplace(one, base::format("{}/alone{}-{}", folder_, ranks, saved.size())).second)
        alone_cases.push_back(base::format("{} steps=1 clip=0 save={}", one, saved[one]));
      cut_cases.push_back(base::format("{} steps=1 clip=0 save={}/{}-{}", text, folder_, ranks, cut_cases.size()));
    }
    train(1, alone_cases);
    train(ranks, cut_cases);
    for (size_t i = 0; i < cases.size(); ++i)
      compare(ranks, cases[i], base::format("{}/{}-{}", folder_, ranks, i), saved[alone(cases[i], ranks)]);
  }

 private:
  void compare(int ranks, const std::string& text, const std::string& cut, const std::string& whole) {
    auto& files = base::real_files();
    const auto found = checkpoint::open_checkpoint(files, base::Path(cut) / "step-1");
    const auto expected = checkpoint::open_checkpoint(files, base::Path(whole) / "step-1");
    EXPECT_EQ(found.tensors.size(), expected.tensors.size()) << text;
    double square = 0;
    for (const auto& [name, entry] : expected.tensors)
      if (name.starts_with(kFirst)) square += std::pow(expected.tensor(name).norm().item<double>(), 2);
    double worst = 0;
    std::string where;
    for (const auto& [name, entry] : expected.tensors) {
      ASSERT_TRUE(found.tensors.count(name) != 0) << text << ": " << name;
      if (!name.starts_with(kFirst)) continue;
      const auto gradient = expected.tensor(name), other = found.tensor(name);
      ASSERT_EQ(other.sizes(), gradient.sizes()) << text << ": " << name;
      const double allowed = 1e-4 * std::max(gradient.norm().item<double>(), 1e-6 * std::sqrt(square));
      const double off = (other - gradient).norm().item<double>() / allowed;
      EXPECT_LT(off, 1) << text << ": " << name;
      if (off > worst) worst = off, where = name.substr(std::string(kFirst).size());
    }
    EXPECT_GT(square, 0) << text;
    std::printf("%d ranks  %-70s %5.1f%% of the limit, at %s\n", ranks, text.c_str(), 100 * worst, where.c_str());
  }

  std::string folder_;
};

// Each of tp, tp with the sequence cut, and pp, for each family; and pairs of all that there is.
TEST_F(Gradients, of_every_layout_are_those_of_one) {
  expect_as_alone(2, {"gpt2 layout=tp=2",
                      "gpt2 layout=tp=2 sequence=1",
                      "gpt2 layout=pp=2 accumulate=2",
                      "llama layout=tp=2 masked=1",
                      "llama layout=tp=2 keys=2 sequence=1 masked=1",
                      "llama layout=pp=2 accumulate=2",
                      "qwen2 layout=tp=2",
                      "qwen2 layout=tp=2 sequence=1",
                      "qwen2 layout=pp=2 accumulate=2",
                      "moe layout=tp=2",
                      "moe layout=tp=2 sequence=1 masked=1",
                      "moe layout=pp=2 accumulate=2",
                      "qwen_moe layout=tp=2",
                      "qwen_moe layout=tp=2 sequence=1",
                      "qwen_moe layout=pp=2 accumulate=2",
                      "vit layout=tp=2 drops=1",
                      "vit layout=pp=2 accumulate=2",
                      "lora layout=tp=2 drops=1",
                      "lora layout=tp=2 sequence=1 drops=1",
                      "qlora layout=tp=2 width=128 inner=256 drops=1"});
  expect_as_alone(
      4, {"gpt2 layout=tp=4 heads=4", "gpt2 layout=tp=4 heads=4 sequence=1", "llama layout=tp=4 heads=4 keys=2",
          "llama layout=tp=4 heads=4 sequence=1", "gpt2 layout=tp=2,dp=2 zero=3 recompute=full sequence=1",
          "llama layout=tp=2,dp=2 zero=1 masked=1", "moe layout=tp=2,dp=2 zero=2 accumulate=2",
          "vit layout=tp=2,dp=2 zero=3 drops=1", "gpt2 layout=pp=2,tp=2 accumulate=2 sequence=1",
          "qwen_moe layout=pp=2,tp=2 accumulate=2", "lora layout=pp=2,tp=2 accumulate=2 drops=1",
          "qlora layout=pp=2,tp=2 accumulate=2 width=128 inner=256"});
}

TEST_F(Gradients, of_divided_backwards_are_those_of_one) {
  expect_as_alone(2, {"gpt2 layout=pp=2 accumulate=4 layers=4 schedule=zbv",
                      "llama layout=pp=2 accumulate=2 schedule=zb-h1 recompute=full",
                      "qwen_moe layout=pp=2 accumulate=4 layers=4 schedule=dualpipev",
                      "vit layout=pp=2 accumulate=2 layers=4 drops=1 schedule=zbv",
                      "lora layout=pp=2 accumulate=2 drops=1 schedule=zb-h1"});
  expect_as_alone(4, {"gpt2 layout=pp=4 accumulate=8 layers=8 schedule=dualpipev",
                      "moe layout=pp=2,dp=2 zero=1 accumulate=2 layers=4 schedule=zbv"});
}

TEST_F(Gradients, of_samples_cut_by_tokens_are_those_of_one) {
  expect_as_alone(2, {"gpt2 layout=cp=2", "gpt2 layout=cp=2 context=ulysses", "llama layout=cp=2 packed=1",
                      "llama layout=cp=2 context=ulysses packed=1", "qwen2 layout=cp=2 recompute=full",
                      "moe layout=cp=2 masked=1", "qwen_moe layout=cp=2 context=ulysses", "lora layout=cp=2 drops=1"});
  expect_as_alone(4, {"gpt2 layout=cp=4 zero=3", "llama layout=cp=4 heads=4 keys=2 context=ulysses",
                      "llama layout=cp=2,dp=2 zero=1 masked=1", "moe layout=cp=2,dp=2 zero=2 accumulate=2",
                      "gpt2 layout=tp=2,cp=2", "qwen_moe layout=pp=2,cp=2 accumulate=2 context=ulysses"});
}

TEST_F(Gradients, of_experts_shared_out_are_those_of_one) {
  expect_as_alone(2, {"moe layout=dp=2,ep=2", "qwen_moe layout=dp=2,ep=2 zero=3 capacity=1.25 masked=1",
                      "qwen_moe layout=cp=2,ep=2 zero=1", "moe_lora layout=dp=2,ep=2 zero=1"});
  expect_as_alone(4, {"moe layout=dp=4,ep=4", "moe layout=dp=4,ep=2 zero=1 accumulate=2",
                      "qwen_moe layout=dp=4,ep=2 zero=3 recompute=full", "moe layout=dp=2,tp=2,ep=2 zero=1",
                      "qwen_moe layout=pp=2,dp=2,ep=2 accumulate=2 capacity=1.25"});
}

TEST_F(Gradients, of_eight_processes_in_three_dimensions_are_those_of_one) {
  expect_as_alone(8, {"gpt2 layout=pp=2,tp=2,dp=2 zero=1 accumulate=2 sequence=1",
                      "llama layout=pp=2,tp=2,dp=2 zero=3 accumulate=2 masked=1"});
}

TEST_F(Gradients, DISABLED_matrix_of_layouts) {
  for (const int ranks : {2, 4, 8}) expect_as_alone(ranks, all_layouts(ranks));
}

TEST_F(Gradients, DISABLED_matrix_of_divided_backwards) {
  for (const int ranks : {2, 4}) expect_as_alone(ranks, layouts_with_divided_backwards(ranks));
}

}  // namespace
}  // namespace hyperion::testing

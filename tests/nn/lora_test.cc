#include "hyperion/nn/lora.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/nn/adapters.h"
#include "hyperion/nn/layers.h"
#include "tests/support/devices.h"

namespace hyperion::nn {
namespace {

using testing::relative_error;

// model.first, model.second, norm, lm_head; the second stores its weight [in, out].
class Inner final : public Module {
 public:
  Inner() {
    first_ = register_module("first", std::make_shared<Linear>(6, 10, false, Init::normal(0.5)));
    second_ = register_module("second", std::make_shared<LinearInOut>(10, 6, Init::normal(0.5)));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*second_, run(*first_, input, pass), pass);
  }

 private:
  std::shared_ptr<Linear> first_;
  std::shared_ptr<LinearInOut> second_;
};

class Net final : public Module {
 public:
  Net() {
    model_ = register_module("model", std::make_shared<Inner>());
    norm_ = register_module("norm", std::make_shared<LayerNorm>(6));
    lm_head_ = register_module("lm_head", std::make_shared<Linear>(6, 7, false, Init::normal(0.5)));
    initialise(5);
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*lm_head_, run(*norm_, run(*model_, input, pass), pass), pass);
  }

 private:
  std::shared_ptr<Inner> model_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> lm_head_;
};

class Lora : public ::testing::Test {
 protected:
  at::Tensor out(const std::vector<int64_t>& picked = {}) {
    Pass pass;
    pass.adapters = picked;
    return net_.forward(input_, pass);
  }
  // B starts at zero: moves it so that the adapter does something.
  void wake(const std::string& name, double size) {
    const at::NoGradGuard no_grad;
    for (auto& [parameter, tensor] : adapters_.parameters(name)) tensor.add_(at::randn(tensor.sizes()), size);
  }
  std::vector<std::string> names(const std::string& adapter) {
    std::vector<std::string> list;
    for (const auto& entry : adapters_.parameters(adapter)) list.push_back(entry.name);
    return list;
  }
  std::string refusal(const LoraConfig& config, const std::string& name = "x") {
    try {
      adapters_.add(name, config, 1);
    } catch (const base::ConfigError& error) {
      return error.what();
    }
    return "added";
  }

  Net net_;
  Adapters adapters_{net_};
  at::Tensor input_ = at::randn({4, 3, 6});
};

TEST_F(Lora, changes_nothing_until_it_is_trained_and_freezes_the_base) {
  const auto before = out().detach();
  adapters_.add("a", {}, 1);
  EXPECT_TRUE(out().detach().equal(before));
  out().sum().backward();
  for (const auto& item : net_.list_parameters()) {
    const bool adapter = item.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(item.tensor.requires_grad(), adapter) << item.name;
    EXPECT_EQ(item.tensor.grad().defined(), adapter) << item.name;
    EXPECT_TRUE(item.traits.decay || !adapter) << item.name;
  }
}

TEST_F(Lora, adds_scale_times_b_times_a) {
  adapters_.add("a", {.rank = 3, .alpha = 6, .targets = layer_names("first")}, 1);
  wake("a", 0.3);
  auto* inner = dynamic_cast<Module*>(net_.named_children()["model"].get());
  auto* first = dynamic_cast<Linear*>(inner->named_children()["first"].get());
  const auto ab = adapters_.parameters("a");
  Pass pass;
  const auto whole = first->named_parameters(false)["weight"].add(at::matmul(ab[1].tensor, ab[0].tensor), 2);
  EXPECT_LT(relative_error(first->forward(input_, pass).detach(), at::matmul(input_, whole.t()).detach()), 1e-6);
}

TEST_F(Lora, starts_a_uniform_within_its_bound_from_seed_and_name) {
  adapters_.add("a", {.rank = 64, .targets = layer_names("first")}, 1);
  const auto a = adapters_.parameters("a")[0].tensor.detach(), b = adapters_.parameters("a")[1].tensor.detach();
  const double bound = 1 / std::sqrt(6.0);
  EXPECT_LE(a.abs().max().item<double>(), bound);
  EXPECT_GT(a.abs().max().item<double>(), 0.97 * bound);
  EXPECT_NEAR(a.mean().item<double>(), 0, 0.05);
  EXPECT_TRUE(b.eq(0).all().item<bool>());
  Net other;
  Adapters again(other);
  again.add("a", {.rank = 64, .targets = layer_names("first")}, 1);
  EXPECT_TRUE(again.parameters("a")[0].tensor.equal(a));
}

TEST_F(Lora, picks_adapters_for_the_pass_or_for_each_row) {
  const auto base = out().detach();
  adapters_.add("a", {.rank = 2}, 1);
  adapters_.add("b", {.rank = 5, .targets = layer_names("second,lm_head")}, 1);
  wake("a", 0.3), wake("b", 0.3);
  EXPECT_TRUE(out().equal(out({0})));
  EXPECT_TRUE(out({-1}).equal(base));
  EXPECT_GT(relative_error(out({1}).detach(), out({0}).detach()), 0.01);
  const auto mixed = out({1, -1, 0, 1}).detach();
  const int64_t of_row[] = {1, -1, 0, 1};
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_LT(relative_error(mixed[row], out({of_row[row]}).detach()[row]), 1e-6) << row;
  adapters_.use("b");
  EXPECT_TRUE(out().equal(out({1})));
  adapters_.use("");
  EXPECT_TRUE(out().equal(base));
  EXPECT_THROW(out({0, 1}), base::Error);
  EXPECT_THROW(adapters_.use("c"), base::ConfigError);
}

TEST_F(Lora, merged_is_the_same_function) {
  const auto base = out().detach();
  adapters_.add("a", {.rank = 4, .alpha = 3, .rank_stabilised = true, .targets = layer_names("first,second,lm_head")},
                1);
  wake("a", 0.5);
  const auto before = out().detach();
  adapters_.merge("a");
  EXPECT_TRUE(adapters_.empty());
  EXPECT_LT(relative_error(out().detach(), before), 1e-6);
  EXPECT_GT(relative_error(before, base), 0.1);
  for (const auto& item : net_.list_parameters()) {
    EXPECT_TRUE(item.tensor.requires_grad());
    EXPECT_EQ(item.name.find("lora"), std::string::npos);
  }
}

TEST_F(Lora, drops_inputs_in_training_only_by_step_and_layer) {
  adapters_.add("a", {.rank = 4, .dropout = 0.5}, 1);
  wake("a", 0.5);
  const auto at_step = [&](uint32_t step) {
    Pass pass;
    pass.training = true;
    pass.step = step;
    return net_.forward(input_, pass).detach();
  };
  EXPECT_TRUE(at_step(1).equal(at_step(1)));
  EXPECT_FALSE(at_step(1).equal(at_step(2)));
  EXPECT_FALSE(at_step(1).equal(out().detach()));
}

TEST_F(Lora, finds_layers_as_peft_does) {
  adapters_.add("all", {}, 1);
  EXPECT_EQ(names("all").size(), 4);  // not lm_head
  EXPECT_EQ(names("all")[0], "model.first.lora_A.weight");
  EXPECT_EQ(adapters_.layers("all"), (std::vector<std::string>{"first", "second"}));
  adapters_.add("regex", {.targets = layer_names("(model\\.)?.*st|lm_head")}, 1);
  EXPECT_EQ(names("regex"), (std::vector<std::string>{"model.first.lora_A.weight", "model.first.lora_B.weight",
                                                      "lm_head.lora_A.weight", "lm_head.lora_B.weight"}));
  adapters_.add("but", {.targets = layer_names("all-linear"), .excluded = layer_names("first")}, 1);
  EXPECT_EQ(names("but")[0], "model.second.lora_A.weight");
  EXPECT_TRUE(adapters_.first_is_in_out("but"));
  EXPECT_FALSE(adapters_.first_is_in_out("all"));
}

TEST_F(Lora, takes_ranks_and_alphas_by_pattern) {
  LoraConfig config{.rank = 4, .alpha = 8};
  const auto end = [](const char* text) { return PathExpression(text, "pattern", PathExpression::Reach::end); };
  config.rank_pattern = {{end("sec.*"), 2}, {end("second"), 3}};
  config.alpha_pattern = {{end("^model.first"), 2}};
  adapters_.add("a", config, 1);
  const auto entries = adapters_.parameters("a");
  EXPECT_EQ(entries[0].tensor.size(0), 4);
  EXPECT_EQ(entries[2].tensor.size(0), 2);
  EXPECT_EQ(scale_of(config, "model.first"), 0.5);
  EXPECT_EQ(scale_of(config, "model.second"), 4);
}

TEST_F(Lora, refuses_what_cannot_be_meant) {
  EXPECT_NE(refusal({.targets = layer_names("norm")}).find("norm, which is not a linear layer"), std::string::npos);
  EXPECT_NE(refusal({.targets = layer_names(".*")}).find("at the whole model, which is not"), std::string::npos);
  EXPECT_NE(refusal({.targets = layer_names("q_proj")}).find("no layer"), std::string::npos);
  EXPECT_NE(refusal({.rank = 0}).find("rank"), std::string::npos);
  EXPECT_NE(refusal({.dropout = 1}).find("dropout"), std::string::npos);
  EXPECT_NE(refusal({}, "a.b").find("cannot name"), std::string::npos);
  EXPECT_EQ(refusal({}, "a"), "added");
  EXPECT_NE(refusal({}, "a").find("already"), std::string::npos);
}

TEST_F(Lora, trains_through_a_4_bit_base) {
  const auto base = out().detach();
  net_.visit([](const std::string& path, Module& module) {
    if (auto* projection = dynamic_cast<Projection*>(&module); projection != nullptr && path != "lm_head")
      projection->quantize();
  });
  const auto quantized = out().detach();
  EXPECT_LT(relative_error(quantized, base), 0.3);
  adapters_.add("a", {}, 1);
  wake("a", 0.1);
  net_.move_to(at::kCPU, at::kFloat);
  out().sum().backward();
  for (const auto& [name, tensor] : adapters_.parameters("a")) EXPECT_TRUE(tensor.grad().defined()) << name;
  std::vector<std::string> left;
  for (const auto& item : net_.list_parameters())
    if (item.name.find("lora") == std::string::npos) left.push_back(item.name);
  EXPECT_EQ(left, (std::vector<std::string>{"model.second.bias", "norm.weight", "norm.bias", "lm_head.weight"}));
  EXPECT_THROW(adapters_.merge("a"), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::nn

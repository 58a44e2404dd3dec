#include "hyperion/interop/refit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/json.h"
#include "hyperion/models/llama.h"
#include "hyperion/nn/meta.h"

namespace hyperion::interop {
namespace {

constexpr int64_t kTokens = 16, kWidth = 16;  // as many rows as columns: a table is not known by its shape

std::unique_ptr<models::Model> base_model() {
  models::LlamaConfig config;
  config.layers = 1, config.heads = 2, config.head_width = 8, config.width = kWidth, config.inner = kTokens;
  config.context = 8, config.vocabulary = kTokens;
  auto model = models::make_llama(config);
  model->initialise(3);
  return model;
}

std::string with_tokens(int64_t count) {
  auto json = base::parse_json(base_model()->config_json(), "model");
  json["vocab_size"] = count;
  return json.dump();
}

std::map<std::string, at::Tensor> weights_of(models::Model& model) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& parameter : model.parameters()) weights[parameter.name] = parameter.tensor.detach().clone();
  return weights;
}

bool is_table(const std::string& name) { return name == "model.embed_tokens.weight" || name == "lm_head.weight"; }

TEST(Refit, rows_of_new_tokens_that_there_is_room_for_begin_as_the_mean_of_the_others) {
  auto model = base_model();
  const auto before = weights_of(*model);
  const auto refitted = refit(model, {with_tokens(kTokens), 7, Head::brought, {11, 14}});
  EXPECT_EQ(refitted.tables, std::vector<std::string>({"model.embed_tokens", "lm_head"}));
  EXPECT_EQ(refitted.new_rows, std::vector<int64_t>({11, 14}));
  for (const auto& [name, after] : weights_of(*model)) {
    const at::Tensor& was = before.at(name);
    if (!is_table(name)) {
      EXPECT_TRUE(after.equal(was)) << name;
      continue;
    }
    const auto others = (was.sum(0) - was[11] - was[14]) / static_cast<double>(kTokens - 2);
    for (int64_t row = 0; row < kTokens; ++row) {
      const bool fresh = row == 11 || row == 14;
      EXPECT_EQ(after[row].equal(was[row]), !fresh) << name << " row " << row;
      if (!fresh) continue;
      EXPECT_LT((after[row] - others).abs().max().item<float>(), 0.01 * was.std().item<float>());
    }
    EXPECT_FALSE(after[11].equal(after[14]));
  }
}

TEST(Refit, a_table_that_grows_gets_the_same_rows_whoever_names_them) {
  auto one = base_model(), other = base_model();
  refit(one, {with_tokens(kTokens + 3), 7});
  const auto refitted = refit(other, {with_tokens(kTokens + 3), 7, Head::brought, {16, 17}});
  EXPECT_EQ(refitted.new_rows, std::vector<int64_t>({16, 17, 18}));
  const auto grown = weights_of(*other);
  for (const auto& [name, weight] : weights_of(*one)) EXPECT_TRUE(weight.equal(grown.at(name))) << name;
}

TEST(Refit, a_model_without_memory_has_the_same_values_by_any_stretch) {
  for (const int64_t tokens : {kTokens, kTokens + 2}) {
    const Fit fit{with_tokens(tokens), 7, Head::brought, {3, 15}};
    auto whole = base_model();
    refit(whole, fit);
    ModelOutline outline;
    {
      const nn::MetaScope only_names;
      outline.model = base_model();
    }
    const auto before = weights_of(*base_model());
    outline.values = [&](const std::string& name, int64_t begin, const at::Tensor& out) {
      out.copy_(before.at(name).view(-1).narrow(0, begin, out.numel()));
    };
    EXPECT_EQ(refit(outline, fit).new_rows.size(), static_cast<size_t>(2 + tokens - kTokens));
    for (const auto& [name, weight] : weights_of(*whole))
      for (const int64_t step : {int64_t{5}, int64_t{37}, weight.numel()})
        for (int64_t begin = 0; begin < weight.numel(); begin += step) {
          const auto out = at::empty({std::min(step, weight.numel() - begin)}, at::kFloat);
          outline.values(name, begin, out);
          EXPECT_TRUE(out.equal(weight.view(-1).narrow(0, begin, out.numel()))) << name << " from " << begin;
        }
  }
}

}  // namespace
}  // namespace hyperion::interop

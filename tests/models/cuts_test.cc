// How families may be cut (models/*_cuts.cc): the names, the boxes, and that what processes compute with their parts is
// what one computes with the whole.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hyperion/nn/attention.h"
#include "hyperion/nn/module.h"
#include "tests/models/support_variants.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using strategy::Copies;
using strategy::CutKind;
using testing::ModelVariant;

bool is_adapter(const std::string& name) { return name.find(".lora_") != name.npos; }

TEST(Cuts, have_one_rule_for_every_parameter_and_a_parameter_for_every_rule) {
  std::map<std::string, std::set<std::string>> idle;  // patterns, by table
  std::map<std::string, std::set<std::string>> used;
  for (const auto& variant : testing::model_variants()) {
    const auto model = testing::made(variant);
    const auto rules = model->cuts();
    for (const auto& rule : rules) idle[variant.table].insert(rule.pattern);
    for (const auto& parameter : model->parameters()) {
      int found = 0;
      if (!is_adapter(parameter.name)) {
        for (const auto& rule : rules)
          if (strategy::matches(rule, parameter.name)) ++found, used[variant.table].insert(rule.pattern);
        EXPECT_EQ(found, 1) << variant.name << " " << parameter.name;
      }
      EXPECT_NO_THROW(strategy::cut_of(rules, parameter.name)) << variant.name;
    }
  }
  for (const auto& [table, patterns] : idle)
    for (const auto& pattern : patterns) EXPECT_TRUE(used[table].contains(pattern)) << table << " " << pattern;
}

at::Tensor box_of(const at::Tensor& whole, const strategy::Placement& box) {
  at::Tensor part = whole;
  for (size_t dim = 0; dim < box.offset.size(); ++dim)
    part = part.narrow(static_cast<int64_t>(dim), box.offset[dim], box.size[dim]);
  return part;
}

TEST(Cuts, give_boxes_that_cover_every_tensor_as_often_as_they_say) {
  for (const auto& variant : testing::model_variants()) {
    const auto model = testing::made(variant);
    const auto rules = model->cuts();
    for (const auto& parameter : model->parameters())
      for (const int64_t size : {1, 2, 4, 8}) {
        SCOPED_TRACE(parameter.name + " among " + std::to_string(size));
        const auto [cut, experts, expert] = strategy::cut_of(rules, parameter.name);
        const auto holders = at::zeros(parameter.tensor.sizes(), at::kLong);
        for (int64_t index = 0; index < size; ++index)
          for (const auto& box : strategy::boxes_of(cut, parameter.name, parameter.tensor.sizes().vec(), size, index))
            box_of(holders, box).add_(1);
        for (int64_t index = 0; index < size; ++index)
          EXPECT_TRUE(holders.eq(strategy::sharers_of(cut, size, index).count).all().item<bool>());
        if (experts == 0) continue;
        int64_t holding = 0;
        for (int64_t index = 0; index < size; ++index)
          holding += strategy::holds_expert(expert, experts, size, index) ? 1 : 0;
        EXPECT_EQ(holding, 1);
      }
  }
}

TEST(Cuts, of_a_resnet_cut_nothing_and_of_others_most) {
  for (const auto& variant : testing::model_variants()) {
    const auto model = testing::made(variant);
    int64_t cut = 0, all = 0;
    for (const auto& parameter : model->parameters()) {
      all += parameter.tensor.numel();
      const auto kind = strategy::cut_of(model->cuts(), parameter.name).cut.kind;
      if (kind != CutKind::none && kind != CutKind::row_bias) cut += parameter.tensor.numel();
    }
    if (std::string(variant.name) == "resnet")
      EXPECT_EQ(cut, 0);
    else
      EXPECT_GT(static_cast<double>(cut), 0.6 * static_cast<double>(all)) << variant.name;
  }
}

// Those of a process's boxes, side by side.
at::Tensor held(const at::Tensor& whole, const strategy::Cut& cut, int64_t size, int64_t index) {
  std::vector<at::Tensor> parts;
  for (const auto& box : strategy::boxes_of(cut, "test", whole.sizes().vec(), size, index))
    parts.push_back(box_of(whole, box));
  return at::cat(parts, cut.dim).contiguous();
}

// The model as one of `size` processes holds it. Biases that are added once are the first one's.
std::unique_ptr<Model> part_of(const ModelVariant& variant, int64_t size, int64_t index) {
  auto model = testing::made(variant);
  const auto rules = model->cuts();
  for (auto& parameter : model->parameters()) {
    const auto cut = strategy::cut_of(rules, parameter.name).cut;
    parameter.tensor.set_data(held(parameter.tensor.data(), cut, size, index));
    if (cut.kind == CutKind::row_bias && index > 0) parameter.tensor.data().zero_();
  }
  return model;
}

struct BlockNames {
  const char *blocks, *first_norm, *mixer, *second_norm, *feed_forward;
};

BlockNames names_of(const ModelVariant& variant) {
  const std::string table = variant.table;
  if (table == "gpt2") return {"transformer.h.", "ln_1", "attn", "ln_2", "mlp"};
  if (table == "vit") return {"vit.layers.", "layernorm_before", "attention", "layernorm_after", "mlp"};
  return {"model.layers.", "input_layernorm", "self_attn", "post_attention_layernorm",
          table == "mixtral" ? "block_sparse_moe" : "mlp"};
}

bool is_norm_of_block(const std::string& name, const ModelVariant& variant) {
  const auto names = names_of(variant);
  return name.find(std::string(".") + names.first_norm + ".") != name.npos ||
         name.find(std::string(".") + names.second_norm + ".") != name.npos;
}

nn::Module& module_at(Model& model, const std::string& path) {
  nn::Module* found = nullptr;
  model.tree()->visit([&](const std::string& at, nn::Module& module) {
    if (at == path) found = &module;
  });
  if (found == nullptr) throw std::runtime_error("no module " + path);
  return *found;
}

nn::Pass pass_of(const at::Tensor& hidden, const ModelVariant& variant, bool fused) {
  nn::Pass pass;
  pass.training = true, pass.fused_blocks = fused;
  static std::map<bool, nn::Rotation> rotations;
  const bool turns = names_of(variant).mixer == std::string("self_attn");
  if (turns) rotations.try_emplace(fused, 4, nn::RopeConfig{}).first->second.apply_to(pass, 0, hidden);
  return pass;
}

// One block, plainly: what the mixers of all processes add to their input is summed, and so of their feed-forward
// parts.
at::Tensor block_of(const std::vector<Model*>& processes, const ModelVariant& variant, int64_t layer,
                    const at::Tensor& input) {
  const auto names = names_of(variant);
  const auto path = [&](const char* name) { return names.blocks + std::to_string(layer) + "." + name; };
  at::Tensor hidden = input;
  for (const auto* half : {names.mixer, names.feed_forward}) {
    auto pass = pass_of(hidden, variant, false);
    const auto residual = hidden;
    for (auto* process : processes)
      hidden = hidden + (module_at(*process, path(half)).forward(residual, pass) - residual);
  }
  return hidden;
}

std::map<std::string, at::Tensor> take_gradients(Model& model) {
  std::map<std::string, at::Tensor> gradients;
  for (auto& parameter : model.parameters()) {
    if (parameter.tensor.grad().defined()) gradients[parameter.name] = parameter.tensor.grad().clone();
    parameter.tensor.mutable_grad().reset();
  }
  return gradients;
}

// A key's bias that nothing turns has no gradient but rounding: hence the least size of an error.
void expect_near(const at::Tensor& value, const at::Tensor& expected, const std::string& name) {
  EXPECT_LT((value - expected).norm().item<double>(), 1e-4 * expected.norm().item<double>() + 1e-4) << name;
}

class CutBlocks : public ::testing::TestWithParam<int64_t> {
 protected:
  std::vector<ModelVariant> variants() {
    auto list = testing::model_variants();
    std::erase_if(list, [](const auto& variant) { return std::string(variant.name) == "resnet"; });
    return list;
  }
};

TEST_P(CutBlocks, sum_to_the_whole_in_value_and_gradient) {
  const int64_t size = GetParam();
  for (const auto& variant : variants())
    for (const int64_t layer : {0, 1}) {
      SCOPED_TRACE(std::string(variant.name) + ", layer " + std::to_string(layer));
      const auto whole = testing::made(variant);
      const auto input = at::randn({2, 7, 32}), weight = at::randn_like(input);
      const auto expected = block_of({whole.get()}, variant, layer, input);
      (expected * weight).sum().backward();
      const auto gradients = take_gradients(*whole);

      std::vector<std::unique_ptr<Model>> parts;
      std::vector<Model*> processes;
      for (int64_t index = 0; index < size; ++index) {
        parts.push_back(part_of(variant, size, index));
        processes.push_back(parts.back().get());
      }
      const auto output = block_of(processes, variant, layer, input);
      EXPECT_LT(testing::relative_error(output.detach(), expected.detach()), 1e-5);
      (output * weight).sum().backward();

      std::vector<std::map<std::string, at::Tensor>> found;
      for (auto* process : processes) found.push_back(take_gradients(*process));
      for (const auto& [name, gradient] : gradients) {
        const auto cut = strategy::cut_of(whole->cuts(), name).cut;
        if (is_norm_of_block(name, variant)) {  // here each process's is of what it added itself
          at::Tensor sum = found[0].at(name);
          for (size_t other = 1; other < found.size(); ++other) sum = sum + found[other].at(name);
          expect_near(sum, gradient, name);
          continue;
        }
        for (int64_t index = 0; index < size; ++index) {
          const auto [first, count] = strategy::sharers_of(cut, size, index);
          at::Tensor own = found[static_cast<size_t>(index)].at(name);
          for (int64_t other = first; cut.copies == Copies::partial && other < first + count; ++other)
            if (other != index) own = own + found[static_cast<size_t>(other)].at(name);
          expect_near(own, held(gradient, cut, size, index), name + " of process " + std::to_string(index));
        }
      }
    }
}

// What a block adds by its mixer alone, or by its feed-forward part alone: the other's last layer is silent.
at::Tensor added_by(Model& model, const ModelVariant& variant, bool mixer, const at::Tensor& input) {
  const auto names = names_of(variant);
  const std::string block = names.blocks + std::string("1");
  const std::string silent = block + "." + (mixer ? names.feed_forward : names.mixer) + ".";
  for (auto& parameter : model.parameters()) {
    const auto kind = strategy::cut_of(model.cuts(), parameter.name).cut.kind;
    const bool last =
        kind == CutKind::row || kind == CutKind::row_bias || parameter.name.ends_with(".lora_B.mine.weight");
    if (last && parameter.name.starts_with(silent)) parameter.tensor.data().zero_();
  }
  auto pass = pass_of(input, variant, true);
  return module_at(model, block).forward(input, pass) - input;
}

TEST_P(CutBlocks, sum_to_the_whole_where_they_are_fused) {
  const int64_t size = GetParam();
  for (const auto& variant : variants())
    for (const bool mixer : {true, false}) {
      SCOPED_TRACE(std::string(variant.name) + (mixer ? ", mixer" : ", feed-forward part"));
      const auto input = at::randn({2, 7, 32});
      const auto whole = added_by(*testing::made(variant), variant, mixer, input);
      at::Tensor sum;
      for (int64_t index = 0; index < size; ++index) {
        const auto part = added_by(*part_of(variant, size, index), variant, mixer, input);
        sum = sum.defined() ? sum + part : part;
      }
      EXPECT_LT(testing::relative_error(sum.detach(), whole.detach()), 1e-5);
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CutBlocks, ::testing::Values<int64_t>(2, 4),
                         [](const auto& info) { return "among_" + std::to_string(info.param); });

}  // namespace
}  // namespace hyperion::models

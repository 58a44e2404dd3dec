#include "hyperion/interop/peft.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/models/gpt2.h"

namespace hyperion::interop {
namespace {

using base::Path;
using Tensors = std::map<std::string, at::Tensor>;

class Peft : public ::testing::Test {
 protected:
  Peft() {
    std::string name = (std::filesystem::temp_directory_path() / "hyperion-peft-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    model_ = fresh();
    model_->adapters().add("mine", {.rank = 3, .alpha = 5, .targets = nn::layer_names("c_attn,c_fc")}, 1);
    const at::NoGradGuard no_grad;
    for (auto& [parameter, tensor] : model_->adapters().parameters("mine")) tensor.add_(at::randn(tensor.sizes()), 0.1);
  }
  ~Peft() override { std::filesystem::remove_all(root_); }

  static std::unique_ptr<models::Model> fresh() {
    models::Gpt2Config config;
    config.layers = 2, config.heads = 2, config.width = 16, config.context = 12, config.vocabulary = 30;
    auto model = models::make_gpt2(config);
    model->initialise(3);
    return model;
  }

  static at::Tensor logits(models::Model& model) {
    nn::Pass pass;
    return model.logits(at::arange(10, at::kLong).view({2, 5}), pass).detach();
  }

  // The adapter written, with its files changed.
  Path folder(const std::function<void(base::Json&)>& change_config, const std::function<void(Tensors&)>& change = {}) {
    const Path path = root_ / "adapter", file = path / "adapter_model.safetensors", config = path / kAdapterConfig;
    auto& files = base::real_files();
    std::filesystem::remove_all(path);
    write_adapter(files, *model_, path, {"mine", "the-base"});
    auto json = base::parse_json(files.read(config), "config");
    change_config(json);
    base::write_atomically(files, config, json.dump());
    Tensors tensors;
    const checkpoint::SafetensorsFile written(file);
    for (const auto& name : written.names()) tensors[name] = written.tensor(name).clone();
    if (change) change(tensors);
    std::vector<checkpoint::NamedTensor> list;
    for (const auto& [name, tensor] : tensors) list.push_back({name, tensor});
    checkpoint::write_safetensors(files, file, list);
    return path;
  }

  std::string refusal(const Path& path) {
    auto model = fresh();
    try {
      read_adapter(base::real_files(), path, *model, "x");
    } catch (const base::Error& error) {
      return std::string(error.what()) + "\n" + error.hint();
    }
    return "read";
  }

  Path root_;
  std::unique_ptr<models::Model> model_;
};

bool text_holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
void keep(base::Json&) {}

TEST_F(Peft, reads_back_what_it_wrote) {
  auto model = fresh();
  read_adapter(base::real_files(), folder(keep), *model, "x");
  EXPECT_TRUE(logits(*model).equal(logits(*model_)));
  EXPECT_FALSE(logits(*model).equal(logits(*fresh())));
}

TEST_F(Peft, lists_wrong_missing_and_extra_tensors_together) {
  const auto text = refusal(folder(keep, [](Tensors& tensors) {
    const std::string layer = "base_model.model.transformer.h.0.";
    tensors[layer + "attn.c_attn.lora_A.weight"] = at::ones({4, 16});
    tensors[layer + "attn.c_attn.lora_B.weight"] = at::ones({48, 3}, at::kLong);
    tensors.erase(layer + "mlp.c_fc.lora_A.weight");
    tensors["base_model.model.transformer.h.9.attn.c_attn.lora_A.weight"] = at::ones({3, 16});
  }));
  EXPECT_TRUE(text_holds(text,
                         "wrong: base_model.model.transformer.h.0.attn.c_attn.lora_A.weight is [4, 16], and the "
                         "adapter's is [3, 16]"))
      << text;
  EXPECT_TRUE(text_holds(text, "lora_B.weight holds Long")) << text;
  EXPECT_TRUE(text_holds(text, "missing: base_model.model.transformer.h.0.mlp.c_fc.lora_A.weight [3, 16]")) << text;
  EXPECT_TRUE(text_holds(text, "extra: base_model.model.transformer.h.9.attn.c_attn.lora_A.weight")) << text;
}

TEST_F(Peft, takes_a_copy_of_the_base_only_where_it_is_one) {
  const std::string name = "transformer.wte.weight";
  at::Tensor table;
  for (const auto& parameter : model_->parameters())
    if (parameter.name == name) table = parameter.tensor.detach();
  const auto with = [&](const at::Tensor& tensor) {
    return refusal(folder(
        keep, [&](Tensors& tensors) { tensors["base_model.model.transformer.wte.base_layer.weight"] = tensor; }));
  };
  EXPECT_EQ(with(table), "read");
  EXPECT_TRUE(text_holds(with(table.add(1)), "is not transformer.wte.weight of this model"));
}

TEST_F(Peft, refuses_other_functions_by_name) {
  const std::pair<const char*, base::Json> cases[] = {{"peft_type", "IA3"},
                                                      {"use_dora", true},
                                                      {"bias", "all"},
                                                      {"modules_to_save", 5},
                                                      {"trainable_token_indices", "some"},
                                                      {"lora_bias", true},
                                                      {"layers_to_transform", {0}},
                                                      {"target_parameters", {"x"}},
                                                      {"init_lora_weights", "pissa"},
                                                      {"some_later_invention", true},
                                                      {"r", "eight"},
                                                      {"r", 0},
                                                      {"lora_alpha", 1e30},
                                                      {"alpha_pattern", {{"c_fc", 1e7}}},
                                                      {"target_modules", 5},
                                                      {"rank_pattern", {{"c_fc", -1e300}}}};
  for (const auto& [key, value] : cases) {
    const auto text = refusal(folder([&, key = key, &value = value](base::Json& json) { json[key] = value; }));
    EXPECT_TRUE(text_holds(text, key)) << key << ": " << text;
    EXPECT_TRUE(text_holds(text, "adapter_config.json")) << text;
  }
  EXPECT_EQ(refusal(folder([](base::Json& json) { json["use_qalora"] = false, json["megatron_config"] = nullptr; })),
            "read");
}

TEST_F(Peft, a_module_to_save_that_is_text_is_one_name) {
  const auto config = parse_adapter_config(
      R"({"peft_type": "LORA", "target_modules": "all-linear", "modules_to_save": "lm_head"})", "here");
  EXPECT_EQ(config.config.saved, std::vector<std::string>{"lm_head"});
}

TEST_F(Peft, a_list_of_tokens_is_of_the_inputs_table) {
  model_->adapters().merge("mine");
  nn::LoraConfig config{.rank = 2, .targets = nn::layer_names("c_fc")};
  config.token_rows = {{"wte", {3, 7}}};
  model_->adapters().add("mine", config, 1);
  const Path path = folder([](base::Json& json) { json["trainable_token_indices"] = {3, 7}; });
  auto model = fresh();
  read_adapter(base::real_files(), path, *model, "x");
  EXPECT_EQ(model->adapters().config("x").token_rows, config.token_rows);
}

TEST_F(Peft, modules_to_save_are_named_by_how_their_paths_end) {
  const auto saved = [](const nn::LoraConfig& config) {
    auto model = fresh();
    model->adapters().add("mine", config, 1);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model->adapters().parameters("mine"))
      if (name.ends_with(".weight") && !text_holds(name, "lora_")) names.push_back(name);
    return names;
  };
  nn::LoraConfig config{.rank = 2, .targets = nn::layer_names("c_fc"), .saved = {"_2", "A", "no_such"}};
  EXPECT_EQ(saved(config), (std::vector<std::string>{"transformer.h.0.ln_2.weight", "transformer.h.1.ln_2.weight"}))
      << "sides of an adapter, lora_A, are no modules of the model";
  config.each_name_fits = true;
  EXPECT_THROW(saved(config), base::ConfigError);
  config.saved = {"_fc"};
  EXPECT_THROW(saved(config), base::ConfigError) << "an adapter inside a module trained whole";
  config.saved = {"lp"};
  EXPECT_THROW(saved(config), base::ConfigError) << "likewise";
}

TEST_F(Peft, an_adapter_keeps_its_type_beside_a_narrower_base_and_is_rounded_once_when_merged) {
  auto& files = base::real_files();
  model_ = fresh();
  model_->adapters().add("mine", {.rank = 2, .targets = nn::layer_names("c_fc"), .saved = {"ln_f"}}, 1);
  {
    const at::NoGradGuard no_grad;
    for (auto& [parameter, tensor] : model_->adapters().parameters("mine")) tensor.add_(at::randn(tensor.sizes()), 0.1);
  }
  const Path path = folder(keep);
  auto model = fresh();
  model->to(at::kCPU, at::kBFloat16);
  read_adapter(files, path, *model, "x", /*in_own_type=*/true);
  write_adapter(files, *model, root_ / "again", {"x", ""});
  const checkpoint::SafetensorsFile first(path / "adapter_model.safetensors"),
      again(root_ / "again/adapter_model.safetensors");
  for (const auto& name : first.names()) EXPECT_TRUE(first.tensor(name).equal(again.tensor(name))) << name;
  ASSERT_TRUE(model->adapters().rounding());
  EXPECT_EQ(model->adapters().rounding()->from, at::kFloat);
  EXPECT_EQ(model->adapters().rounding()->to, at::kBFloat16);

  auto narrow = fresh();
  narrow->to(at::kCPU, at::kBFloat16);
  narrow->to(at::kCPU, at::kFloat);
  read_adapter(files, path, *narrow, "x");
  narrow->adapters().merge("x");
  model->adapters().merge("x");
  const auto merged = model->parameters(), wide = narrow->parameters();
  ASSERT_EQ(merged.size(), wide.size());
  for (size_t i = 0; i < merged.size(); ++i) {
    EXPECT_EQ(merged[i].tensor.scalar_type(), at::kBFloat16) << merged[i].name;
    EXPECT_TRUE(merged[i].tensor.equal(wide[i].tensor.to(at::kBFloat16))) << merged[i].name;
  }
}

TEST_F(Peft, refuses_pickles_and_folders_without_an_adapter) {
  const Path path = folder(keep);
  std::filesystem::rename(path / "adapter_model.safetensors", path / "adapter_model.bin");
  EXPECT_TRUE(text_holds(refusal(path), "a pickle"));
  EXPECT_TRUE(text_holds(refusal(root_), "no adapter folder"));
  EXPECT_THROW(write_adapter(base::real_files(), *model_, path, {"mine", ""}), base::ConfigError);
}

TEST_F(Peft, expressions_that_would_never_end_are_refused_by_field) {
  const std::string deep(20'000, '('), endless = "(.*)*[xy]";
  const std::pair<const char*, base::Json> cases[] = {
      {"target_modules", deep},       {"target_modules", endless},
      {"exclude_modules", deep},      {"exclude_modules", endless},
      {"rank_pattern", {{deep, 2}}},  {"rank_pattern", {{endless, 2}}},
      {"alpha_pattern", {{deep, 2}}}, {"alpha_pattern", {{endless, 2}}},
      {"target_modules", "(a"},       {"target_modules", std::string(70'000, 'a')}};
  for (const auto& [key, value] : cases) {
    const auto text = refusal(folder([&, key = key, &value = value](base::Json& json) { json[key] = value; }));
    EXPECT_TRUE(text_holds(text, std::string(key) + ": ")) << key << ": " << text.substr(0, 500);
    EXPECT_TRUE(text_holds(text, (root_ / "adapter").string())) << text.substr(0, 500);
    EXPECT_TRUE(text_holds(text, "regular expression")) << text.substr(0, 500);
    EXPECT_LT(text.size(), 1000u);
  }
}

TEST_F(Peft, a_saved_table_of_more_tokens_makes_the_model_fit) {
  models::Gpt2Config config;
  config.layers = 2, config.heads = 2, config.width = 16, config.context = 12, config.vocabulary = 33;
  model_ = models::make_gpt2(config);
  model_->initialise(4);
  model_->adapters().add("mine", {.rank = 2, .targets = nn::layer_names("c_fc"), .saved = {"wte"}}, 1);
  const Path path = folder(keep);
  auto model = fresh();
  std::string text = model->config_json();
  fit_to_adapter(base::real_files(), path, model, text);
  EXPECT_EQ(base::parse_json(text, "config")["vocab_size"], 33);
  read_adapter(base::real_files(), path, *model, "x");
  EXPECT_EQ(logits(*model).size(-1), 33);
}

// PEFT trains copies of the modules it saves: of a table alone, its output stays the base's.
TEST_F(Peft, a_table_that_the_output_is_tied_to_goes_with_the_output) {
  model_ = fresh();
  model_->adapters().add("mine", {.rank = 2, .targets = nn::layer_names("c_fc"), .saved = {"wte"}}, 1);
  {
    const at::NoGradGuard no_grad;
    for (auto& [parameter, tensor] : model_->adapters().parameters("mine")) tensor.add_(at::randn(tensor.sizes()), 0.1);
  }
  const std::string table = "base_model.model.transformer.wte.weight", output = "base_model.model.lm_head.weight";
  const Path path = folder([](base::Json& json) {
    EXPECT_EQ(json["modules_to_save"], base::Json({"wte", "lm_head"}));
  });
  const checkpoint::SafetensorsFile file(path / "adapter_model.safetensors");
  EXPECT_TRUE(file.tensor(table).equal(file.tensor(output)));
  auto read = fresh();
  read_adapter(base::real_files(), path, *read, "x");
  EXPECT_TRUE(logits(*read).equal(logits(*model_)));
  auto tied = fresh();
  read_adapter(base::real_files(),
               folder([](base::Json& json) { json["modules_to_save"] = {"wte"}, json["ensure_weight_tying"] = true; }),
               *tied, "x");
  EXPECT_TRUE(logits(*tied).equal(logits(*model_)));
  const auto unsaved =
      refusal(folder([](base::Json& json) { json["modules_to_save"] = nullptr, json["ensure_weight_tying"] = true; },
                     [&](Tensors& tensors) { tensors.erase(table), tensors.erase(output); }));
  EXPECT_TRUE(text_holds(unsaved, "ensure_weight_tying = true is read only where")) << unsaved;
  const auto alone = refusal(folder([](base::Json& json) { json["modules_to_save"] = {"wte"}; },
                                    [&](Tensors& tensors) { tensors.erase(output); }));
  EXPECT_TRUE(text_holds(alone, "leaves the output as the base's")) << alone;
  const auto other = refusal(folder(keep, [&](Tensors& tensors) { tensors[output].add_(1); }));
  EXPECT_TRUE(text_holds(other, "leaves the output as the base's")) << other;
  EXPECT_THROW(fresh()->adapters().add("mine", {.rank = 2, .saved = {"lm_head"}}, 1), base::ConfigError);
}

TEST_F(Peft, takes_the_tokenizer_along) {
  auto& files = base::real_files();
  files.create_folders(root_ / "tokens");
  base::write_atomically(files, root_ / "tokens" / "tokenizer.json", "{}");
  base::write_atomically(files, root_ / "tokens" / "model.safetensors", "not it");
  write_adapter(files, *model_, root_ / "with", {"mine", "", root_ / "tokens"});
  EXPECT_EQ(files.read(root_ / "with" / "tokenizer.json"), "{}");
  EXPECT_FALSE(files.exists(root_ / "with" / "model.safetensors"));
}

TEST_F(Peft, keeps_the_order_of_patterns) {
  const auto config = parse_adapter_config(R"({"peft_type": "LORA", "r": 2, "target_modules": "ALL-linear",
      "rank_pattern": {"z.*": 3, "a.*": 4}, "alpha_pattern": {"c_fc": 2.5}})",
                                           "here")
                          .config;
  EXPECT_TRUE(config.targets.all);
  EXPECT_EQ(config.rank_pattern.front().first.text(), "z.*");
  EXPECT_EQ(config.alpha_pattern.front().second, 2.5);
  EXPECT_EQ(config.alpha, 8);  // PEFT's default
}

}  // namespace
}  // namespace hyperion::interop

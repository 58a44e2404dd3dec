#include "hyperion/interop/hugging_face.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/gpt2.h"
#include "hyperion/models/llama.h"
#include "hyperion/models/resnet.h"
#include "hyperion/models/vit.h"

namespace hyperion::interop {
namespace {

using base::Path;
using Tensors = std::map<std::string, at::Tensor>;

class HuggingFace : public ::testing::Test {
 protected:
  HuggingFace() {
    std::string name = (std::filesystem::temp_directory_path() / "hyperion-hf-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    models::Gpt2Config config;
    config.layers = 2, config.heads = 2, config.width = 16, config.context = 12, config.vocabulary = 30;
    gpt2_ = models::make_gpt2(config);
    gpt2_->initialise(3);
  }
  ~HuggingFace() override { std::filesystem::remove_all(root_); }

  static Tensors tensors_of(models::Model& model) {
    Tensors map;
    for (const auto& parameter : model.parameters()) map[parameter.name] = parameter.tensor.detach();
    return map;
  }

  static void write(const Path& path, const Tensors& tensors) {
    std::vector<checkpoint::NamedTensor> list;
    for (const auto& [name, tensor] : tensors) list.push_back({name, tensor});
    checkpoint::write_safetensors(base::real_files(), path, list);
  }

  // A folder of the small GPT-2 whose tensors `change` has altered.
  Path folder(const std::function<void(Tensors&)>& change) {
    const Path path = root_ / "model";
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    auto tensors = tensors_of(*gpt2_);
    change(tensors);
    write(path / "model.safetensors", tensors);
    base::write_atomically(base::real_files(), path / "config.json", gpt2_->config_json());
    return path;
  }

  void expect_same_weights(models::Model& model) {
    const auto expected = tensors_of(*gpt2_), got = tensors_of(model);
    ASSERT_EQ(expected.size(), got.size());
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(tensor.equal(got.at(name).to(at::kFloat))) << name;
  }

  std::string refusal(const Path& path) {
    try {
      open_model(base::real_files(), path.string(), at::kCPU);
    } catch (const base::Error& error) {
      return std::string(error.what()) + "\n" + error.hint();
    }
    return "opened";
  }

  Path root_;
  std::unique_ptr<models::Model> gpt2_;
};

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(HuggingFace, opens_a_folder_without_the_prefix_and_with_old_buffers_and_a_doubled_output) {
  const auto path = folder([](Tensors& tensors) {
    Tensors bare;
    for (const auto& [name, tensor] : tensors) bare[name.substr(sizeof("transformer.") - 1)] = tensor;
    bare["h.0.attn.bias"] = at::ones({1, 1, 12, 12}, at::kBool);
    bare["h.1.attn.masked_bias"] = at::ones({});
    bare["lm_head.weight"] = bare.at("wte.weight");
    tensors = bare;
  });
  auto opened = open_model(base::real_files(), path.string(), at::kCPU);
  expect_same_weights(*opened.model);
  EXPECT_FALSE(opened.bytes);
}

TEST_F(HuggingFace, lists_every_wrong_missing_and_extra_tensor_in_one_refusal) {
  const auto what = refusal(folder([](Tensors& tensors) {
    tensors.erase("transformer.h.0.ln_1.weight");
    tensors.erase("transformer.h.1.mlp.c_fc.bias");
    tensors["transformer.wpe.weight"] = at::zeros({16, 12});
    tensors["transformer.ln_f.bias"] = at::zeros({16}, at::kLong);
    tensors["transformer.h.2.ln_1.weight"] = at::zeros({16});
    tensors["lm_head.weight"] = at::zeros({30, 16});
  }));
  for (const char* line : {"missing: transformer.h.0.ln_1.weight [16]", "missing: transformer.h.1.mlp.c_fc.bias [64]",
                           "wrong: transformer.wpe.weight is [16, 12], and the model's is [12, 16]",
                           "wrong: transformer.ln_f.bias holds Long", "extra: transformer.h.2.ln_1.weight [16]",
                           "wrong: lm_head.weight is not transformer.wte.weight"})
    EXPECT_TRUE(holds(what, line)) << line << "\nin " << what;
}

TEST_F(HuggingFace, refuses_pickles_and_says_how_to_convert) {
  const auto path = folder([](Tensors&) {});
  std::filesystem::rename(path / "model.safetensors", path / "pytorch_model.bin");
  for (const auto& each : {path, path / "pytorch_model.bin", Path("weights.pt")}) {
    const auto what = refusal(each);
    EXPECT_TRUE(holds(what, "pickle") && holds(what, "save_pretrained")) << what;
  }
}

TEST_F(HuggingFace, opens_shards_and_refuses_those_that_disagree_with_their_index) {
  const auto path = folder([](Tensors&) {});
  const auto write_index = [&](const base::Json& map) {
    base::write_atomically(base::real_files(), path / "model.safetensors.index.json",
                           base::Json{{"weight_map", map}}.dump());
  };
  Tensors one, two;
  base::Json map;
  for (const auto& [name, tensor] : tensors_of(*gpt2_)) {
    (map.size() % 2 == 0 ? one : two)[name] = tensor;
    map[name] = map.size() % 2 == 0 ? "one.safetensors" : "two.safetensors";
  }
  std::filesystem::remove(path / "model.safetensors");
  EXPECT_TRUE(holds(refusal(path), "neither model.safetensors nor"));
  write(path / "one.safetensors", one);
  write(path / "two.safetensors", two);
  write_index(map);
  expect_same_weights(*open_model(base::real_files(), path.string(), at::kCPU).model);
  auto moved = map;
  moved["transformer.wte.weight"] =
      moved["transformer.wte.weight"] == "one.safetensors" ? "two.safetensors" : "one.safetensors";
  write_index(moved);
  EXPECT_TRUE(holds(refusal(path), "transformer.wte.weight is not in"));
  for (const base::Json& bad :
       {base::Json("../one.safetensors"), base::Json("one.bin"), base::Json(3), base::Json("/etc/x.safetensors")}) {
    auto outside = map;
    outside["transformer.wte.weight"] = bad;
    write_index(outside);
    EXPECT_TRUE(holds(refusal(path), "is not in a .safetensors file of this folder")) << bad;
  }
  base::write_atomically(base::real_files(), path / "model.safetensors.index.json", "[]");
  EXPECT_TRUE(holds(refusal(path), "no weight_map"));
}

TEST_F(HuggingFace, takes_no_memory_for_a_config_far_beyond_its_files) {
  const auto path = folder([](Tensors&) {});
  auto config = base::parse_json(gpt2_->config_json(), "config");
  config["n_embd"] = 1 << 18;
  config["n_layer"] = 1024;
  base::write_atomically(base::real_files(), path / "config.json", config.dump());
  EXPECT_TRUE(holds(refusal(path), "parameters, and the files hold 7,")) << refusal(path);
}

TEST_F(HuggingFace, tells_a_folder_that_is_no_model) {
  EXPECT_TRUE(holds(refusal(root_), "is neither a run, nor a checkpoint, nor a Hugging Face folder"));
  EXPECT_TRUE(holds(refusal(root_ / "absent"), "there is no folder"));
}

TEST_F(HuggingFace, keeps_the_type_of_the_files_unless_told) {
  const auto path = folder([](Tensors& tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kBFloat16);
  });
  const auto type = [](const OpenedModel& opened) { return opened.model->parameters().front().tensor.scalar_type(); };
  EXPECT_EQ(type(open_model(base::real_files(), path.string(), at::kCPU)), at::kBFloat16);
  EXPECT_EQ(type(open_model(base::real_files(), path.string(), at::kCPU, at::kFloat)), at::kFloat);
}

TEST_F(HuggingFace, exports_what_opens_again_and_replaces_nothing) {
  models::LlamaConfig config;
  config.tied = true;
  auto model = models::make_llama(config);
  model->initialise(4);
  auto& files = base::real_files();
  export_hugging_face(files, *model, root_ / "out", {model->config_json()});
  const auto opened = open_hugging_face(files, root_ / "out", at::kCPU);
  const auto expected = tensors_of(*model), got = tensors_of(*opened.model);
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(tensor.equal(got.at(name))) << name;
  const auto json = base::parse_json(opened.config, "config");
  EXPECT_EQ(json["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(checkpoint::SafetensorsFile(root_ / "out" / "model.safetensors").metadata().at("format"), "pt");
  EXPECT_THROW(export_hugging_face(files, *model, root_ / "out", {model->config_json()}), base::ConfigError);
  EXPECT_THROW(export_hugging_face(files, *model, root_ / "out/", {model->config_json()}), base::ConfigError);
  EXPECT_FALSE(files.exists(root_ / "out.partial"));
}

models::ResnetConfig small_resnet() {
  models::ResnetConfig config;
  config.depths = {1, 1}, config.widths = {4, 8}, config.stem_width = 4;
  return config;
}

TEST_F(HuggingFace, exports_running_statistics_in_the_models_type_and_opens_them_again) {
  auto model = models::make_resnet(small_resnet());
  model->initialise(4);
  for (const auto& buffer : model->buffers()) at::Tensor(buffer.tensor).add_(3);
  model->to(at::kCPU, at::kBFloat16);
  auto& files = base::real_files();
  export_hugging_face(files, *model, root_ / "out", {model->config_json()});
  const checkpoint::SafetensorsFile written(root_ / "out" / "model.safetensors");
  for (const auto& name : written.names())
    EXPECT_EQ(written.dtype(name), name.ends_with("num_batches_tracked") ? at::kLong : at::kBFloat16) << name;
  const auto opened = open_hugging_face(files, root_ / "out", at::kCPU);
  for (const auto& buffer : opened.model->buffers())
    EXPECT_EQ(buffer.tensor.max().item<int64_t>(), buffer.name.ends_with("running_var") ? 4 : 3) << buffer.name;
}

TEST_F(HuggingFace, lists_wrong_statistics_and_misses_no_count_of_batches) {
  auto model = models::make_resnet(small_resnet());
  model->initialise(4);
  auto tensors = tensors_of(*model);
  for (const auto& buffer : model->buffers())
    if (!buffer.name.ends_with("num_batches_tracked")) tensors[buffer.name] = buffer.tensor;
  const auto path = root_ / "model";
  std::filesystem::create_directories(path);
  base::write_atomically(base::real_files(), path / "config.json", model->config_json());
  write(path / "model.safetensors", tensors);
  EXPECT_EQ(refusal(path), "opened");
  const std::string norm = "resnet.embedder.embedder.normalization.";
  tensors[norm + "num_batches_tracked"] = at::ones({});
  tensors.erase(norm + "running_mean");
  write(path / "model.safetensors", tensors);
  EXPECT_TRUE(holds(refusal(path), "missing: " + norm + "running_mean [4]")) << refusal(path);
  EXPECT_TRUE(holds(refusal(path), "num_batches_tracked holds Float, not int64"));
}

TEST_F(HuggingFace, names_a_vit_as_its_published_files_do_and_reads_either_name) {
  auto model = models::make_vit({});
  model->initialise(4);
  export_hugging_face(base::real_files(), *model, root_ / "out", {model->config_json()});
  const checkpoint::SafetensorsFile written(root_ / "out" / "model.safetensors");
  EXPECT_TRUE(written.has("vit.encoder.layer.3.attention.attention.query.weight"));
  EXPECT_TRUE(written.has("vit.encoder.layer.0.attention.output.dense.bias"));
  EXPECT_TRUE(written.has("vit.encoder.layer.0.output.dense.bias"));
  EXPECT_EQ(refusal(root_ / "out"), "opened");
  std::filesystem::remove(root_ / "out" / "model.safetensors");
  write(root_ / "out" / "model.safetensors", tensors_of(*model));
  EXPECT_EQ(refusal(root_ / "out"), "opened");
}

TEST_F(HuggingFace, exports_no_model_that_transformers_lacks) {
  auto config = small_resnet();
  config.stem = models::ResnetStem::cifar;
  auto model = models::make_resnet(config);
  model->initialise(4);
  EXPECT_THROW(export_hugging_face(base::real_files(), *model, root_ / "out", {model->config_json()}),
               base::ConfigError);
  EXPECT_FALSE(base::real_files().exists(root_ / "out"));
}

TEST_F(HuggingFace, takes_tokenizer_files_along) {
  const auto path = folder([](Tensors&) {});
  base::write_atomically(base::real_files(), path / "tokenizer.json", "{\"a\": 1}");
  const auto opened = open_model(base::real_files(), path.string(), at::kCPU);
  export_hugging_face(base::real_files(), *opened.model, root_ / "out", {opened.config, opened.folder});
  EXPECT_EQ(base::real_files().read(root_ / "out" / "tokenizer.json"), "{\"a\": 1}");
}

}  // namespace
}  // namespace hyperion::interop

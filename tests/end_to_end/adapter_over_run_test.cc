// An adapter that was trained over a run with an adapter of its own, or over a base without a head, and used on it.
#include "tests/end_to_end/support_pictures.h"
#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Finished;
using testing::read_file;
using testing::says;
using testing::Words;
using testing::write_file;
using testing::operator+;

class AdapterOverRun : public testing::Pictures {
 protected:
  Finished adapt(const std::string& folder, const std::string& name, const std::string& from) {
    return train_on(folder, name, {"--model.from=" + from, "--lora.rank=2", "--lora.targets=q_proj,fc1"});
  }
  Finished export_adapter(const std::string& name) {
    return hyperion({"export", name, "--as-adapter", "--to", in(name + "-lora")});
  }
  json classes_of(const Words& words) { return Pictures::classes_of(words, "insects/ant/0.jpg"); }
  void expect_same(const json& one, const json& other) {
    ASSERT_EQ(one.size(), other.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i]["label"], other[i]["label"]);
      EXPECT_NEAR(one[i]["score"].get<double>(), other[i]["score"].get<double>(), 1e-5);
    }
  }
  // As ViTModel.save_pretrained leaves it: a pooler in place of the head.
  void take_the_head_off(const std::string& folder) {
    std::string weights = read_file(in(folder + "/model.safetensors"));
    for (const auto& [head, pooler] : {std::pair<std::string, std::string>{"classifier.weight", "pooler.xyz.weight"},
                                       {"classifier.bias", "pooler.xyz.bias"}}) {
      const size_t at = weights.find(head);
      ASSERT_NE(at, weights.npos);
      weights.replace(at, head.size(), pooler);
    }
    write_file(in(folder + "/model.safetensors"), weights);
  }
};

TEST_F(AdapterOverRun, is_laid_on_the_run_with_its_own_merged) {
  make_base();
  write_pictures("pets", {"cat", "dog"});
  expect_fine(adapt("insects", "first", in("base-hf")));
  for (const std::string data : {"insects", "pets"}) {  // the head of the run, and another
    expect_fine(adapt(data, data + "-over", "first"));
    const Finished written = export_adapter(data + "-over");
    expect_fine(written);
    EXPECT_TRUE(says(written.err, "its base is a run")) << written.err;
    const json own = classes_of({data + "-over"});
    const Words laid{"first", "--adapter", in(data + "-over-lora")};
    EXPECT_EQ(classes_of(laid), own);
    expect_fine(hyperion(Words{"export"} + laid + Words{"--to", in(data + "-merged")}));
    expect_same(classes_of({in(data + "-merged")}), own);
  }
  EXPECT_EQ(classes_of({"first", "--adapter", in("insects-over-lora"), "--quantize", "nf4"}).size(), 3u);
}

TEST_F(AdapterOverRun, brings_the_head_that_its_base_has_not) {
  make_base();
  write_pictures("pets", {"cat", "dog"});
  expect_fine(adapt("insects", "headed", in("base-hf")));
  expect_fine(export_adapter("headed"));
  take_the_head_off("base-hf");
  for (const std::string data : {"insects", "pets"}) {  // as many classes as config.json has, and others
    const Finished trained = adapt(data, data + "-run", in("base-hf"));
    expect_fine(trained);
    EXPECT_TRUE(says(trained.err, "have no head")) << trained.err;
    expect_fine(export_adapter(data + "-run"));
    const json own = classes_of({data + "-run"});
    EXPECT_EQ(classes_of({in("base-hf"), "--adapter", in(data + "-run-lora")}), own);
    const Finished merged =
        hyperion({"export", in("base-hf"), "--adapter", in(data + "-run-lora"), "--to", in(data + "-merged")});
    expect_fine(merged);
    EXPECT_FALSE(says(merged.err, "have no head")) << merged.err;
    expect_same(classes_of({in(data + "-merged")}), own);
    const Finished measured = hyperion({"eval", data + "-run"});
    expect_fine(measured);
    EXPECT_FALSE(says(measured.err, "have no head")) << measured.err;
  }
  const Finished without =
      hyperion({"classify", in("base-hf"), in("insects/ant/0.jpg"), "--adapter", in("headed-lora")});
  EXPECT_EQ(without.code, 2);
  EXPECT_TRUE(says(without.err, "brings none")) << without.err;
  const Finished bare = hyperion({"classify", in("base-hf"), in("insects/ant/0.jpg")});
  EXPECT_TRUE(says(bare.err, "config.json:\n  missing: classifier.weight")) << bare.err;
}

TEST_F(AdapterOverRun, names_the_place_where_its_base_was_found) {
  make_base();
  expect_fine(adapt("insects", "mine", in("base-hf")));
  fs::rename(in("base-hf"), in("moved-hf"));
  expect_fine(hyperion({"resume", "mine", "--model.from=" + in("moved-hf")}));
  expect_fine(export_adapter("mine"));
  const json config = json::parse(read_file(in("mine-lora/adapter_config.json")));
  EXPECT_EQ(config["base_model_name_or_path"], in("moved-hf"));
}

TEST_F(AdapterOverRun, of_another_kind_of_model_is_called_so) {
  make_base();
  write_pictures("pets", {"cat", "dog"});
  expect_fine(adapt("pets", "mine", in("base-hf")));
  expect_fine(export_adapter("mine"));
  expect_fine(train_on("insects", "other",
                       {"--model.preset=resnet18-cifar", "--model.image=16", "--train.steps=1", "--optim.lr=1e-4"}));
  const Finished done = hyperion({"classify", "other", in("pets/cat/0.jpg"), "--adapter", in("mine-lora")});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "is of another kind of model")) << done.err;
}

}  // namespace
}  // namespace hyperion

// The folder of an adapter of an image model says by itself what classes and pixels it was trained on.
#include "tests/end_to_end/support_pictures.h"
#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::read_file;
using testing::says;
using testing::Words;
using testing::write_file;
using testing::operator+;

class ImageAdapter : public testing::Pictures {
 protected:
  void SetUp() override {
    make_base();
    write_pictures("pets", {"cat", "dog"});
  }
  // A run with an adapter and its folder, trained on other pixels than its base.
  void adapt(const std::string& folder, const std::string& name, const std::string& pixels = "cifar",
             const std::string& base = "base-hf") {
    expect_fine(train_on(folder, name,
                         {"--model.from=" + in(base), "--lora.rank=2", "--lora.targets=q_proj,fc1",
                          "--augment.normalise=" + pixels, "--augment.centre=0.5"}));
    expect_fine(hyperion({"export", name, "--as-adapter", "--to", in(name + "-lora")}));
  }
  json classes_of(const Words& words) { return Pictures::classes_of(words, "pets/cat/0.jpg"); }
  json file(const std::string& name) { return json::parse(read_file(in(name))); }
};

TEST_F(ImageAdapter, names_the_classes_and_sees_the_pixels_it_was_trained_on) {
  adapt("pets", "mine");
  EXPECT_FALSE(std::filesystem::exists(in("mine-lora/config.json"))) << "it is no model's folder";
  EXPECT_EQ(file("mine-lora/classes.json")["id2label"], (json{{"0", "cat"}, {"1", "dog"}}));
  const json own = classes_of({"mine"});
  EXPECT_EQ(classes_of({in("base-hf"), "--adapter", in("mine-lora")}), own);
  EXPECT_EQ(classes_of({in("base-hf"), "--adapter", "pets=" + in("mine-lora"), "--quantize", "nf4"}),
            classes_of({"mine", "--quantize", "nf4"}));

  expect_fine(hyperion({"export", in("base-hf"), "--adapter", in("mine-lora"), "--to", in("merged")}));
  EXPECT_EQ(file("merged/config.json")["id2label"], (json{{"0", "cat"}, {"1", "dog"}}));
  EXPECT_EQ(file("merged/config.json")["label2id"], (json{{"cat", 0}, {"dog", 1}}));
  EXPECT_EQ(file("merged/preprocessor_config.json")["image_mean"][0], 0.4914);
  EXPECT_NEAR(classes_of({in("merged")})[0]["score"].get<double>(), own[0]["score"].get<double>(), 1e-5);
  EXPECT_EQ(classes_of({in("merged")})[0]["label"], own[0]["label"]);
  const Finished next = train_on("pets", "next", {"--model.from=" + in("merged")});
  expect_fine(next);
  EXPECT_TRUE(says(next.err, "augment.normalise = \"cifar\"")) << next.err;
  EXPECT_FALSE(says(next.err, "new head")) << next.err;

  expect_fine(hyperion({"export", in("base-hf"), "--adapter", in("mine-lora"), "--as-adapter", "--to", in("again")}));
  for (const char* name : {"/classes.json", "/preprocessor_config.json"})
    EXPECT_EQ(read_file(in("again") + name), read_file(in("mine-lora") + name)) << name;
}

TEST_F(ImageAdapter, and_its_base_answer_no_text_and_say_what_they_take) {
  for (const Words& words : {Words{"generate", in("base-hf"), "--prompt", "hello"}, Words{"chat", in("base-hf")}}) {
    const Finished done = hyperion(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_TRUE(says(done.err, "base-hf takes images, not text")) << done.err;
    EXPECT_TRUE(says(done.err, "hyperion classify")) << done.err;
  }
}

TEST_F(ImageAdapter, is_measured_by_its_names_and_pixels_and_its_base_by_its_own) {
  adapt("pets", "mine");
  write_file(in("set.toml"), "[prepare]\nfiles = \"" + in("pets") +
                                 "\"\nformat = \"images\"\nvalidation = 0.3\noutput = \"" + in("set") + "\"\n");
  expect_fine(hyperion({"data", "prepare", in("set.toml")}));
  const auto rows = [&](const Words& words) {
    const auto done = hyperion(Words{"eval"} + words + Words{"--set", in("set"), "--json", "--device", "cpu"});
    EXPECT_EQ(done.code, 0) << done.err;
    return done.code == 0 ? json::parse(done.out)["rows"] : json::array();
  };
  const json own = rows({"mine"}), loaded = rows({in("base-hf"), "--adapter", in("mine-lora")});
  ASSERT_EQ(own.size(), 2u);
  ASSERT_EQ(loaded.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(loaded[i]["loss"], own[i]["loss"]) << i;

  // The head is kept here, and what the two classes are called changes: the base is measured beside the adapter.
  expect_fine(hyperion({"export", "mine", "--to", in("pets-hf")}));
  adapt("pets", "kept", "imagenet", "pets-hf");
  const json beside = rows({in("pets-hf"), "--adapter", in("kept-lora")});
  ASSERT_EQ(beside.size(), 3u);
  EXPECT_EQ(beside[0]["loss"], rows({in("pets-hf")})[0]["loss"]);
  EXPECT_EQ(beside[1]["loss"], rows({"kept"})[1]["loss"]);
}

TEST_F(ImageAdapter, of_a_head_that_is_kept_names_its_classes_too) {
  write_pictures("beasts", {"lion", "newt", "ox"});
  adapt("beasts", "mine");
  const json own = classes_of({"mine"});
  EXPECT_EQ(classes_of({in("base-hf"), "--adapter", in("mine-lora")}), own);
  EXPECT_EQ(classes_of({in("base-hf"), "--adapter", in("mine-lora"), "--quantize", "nf4"}),
            classes_of({"mine", "--quantize", "nf4"}));
  adapt("insects", "other");
  write_file(in("set.toml"), "[prepare]\nfiles = \"" + in("beasts") +
                                 "\"\nformat = \"images\"\nvalidation = 0.3\n"
                                 "output = \"" +
                                 in("set") + "\"\n");
  expect_fine(hyperion({"data", "prepare", in("set.toml")}));
  const Finished two = hyperion(
      {"eval", in("base-hf"), "--adapter", in("mine-lora"), "--adapter", in("other-lora"), "--set", in("set")});
  EXPECT_EQ(two.code, 2);
  EXPECT_TRUE(says(two.err, "other-lora was trained on other classes than the one before it")) << two.err;
}

TEST_F(ImageAdapter, with_names_that_do_not_fit_is_refused_and_one_without_any_still_works) {
  adapt("pets", "mine");
  write_file(in("mine-lora/classes.json"), R"({"id2label": {"0": "cat"}})");
  const Words words = {"classify", in("base-hf"), in("pets/cat/0.jpg"), "--adapter", in("mine-lora")};
  const Finished few = hyperion(words);
  EXPECT_EQ(few.code, 1);
  EXPECT_TRUE(says(few.err, "classes.json: id2label names 1 classes, and the head used with it tells 2")) << few.err;
  EXPECT_TRUE(says(few.err, "hint: export the adapter again")) << few.err;
  write_file(in("mine-lora/classes.json"), "[]");
  EXPECT_TRUE(says(hyperion(words).err, "classes.json: id2label names no classes"));
  std::filesystem::remove(in("mine-lora/classes.json"));
  std::filesystem::create_symlink("classes.json", in("mine-lora/classes.json"));
  EXPECT_TRUE(says(hyperion(words).err, "classes.json: Too many levels")) << hyperion(words).err;
  std::filesystem::remove(in("mine-lora/classes.json"));
  std::filesystem::remove(in("mine-lora/preprocessor_config.json"));
  EXPECT_TRUE(says(hyperion(words).out, "LABEL_1"));
}

TEST_F(ImageAdapter, and_a_whole_run_see_any_mean_and_deviation_of_their_base) {
  json processor = file("base-hf/preprocessor_config.json");
  processor["image_mean"] = {0.48145466, 0.4578275, 0.40821073};
  processor["image_std"] = {0.26862954, 0.26130258, 0.27577711};
  write_file(in("base-hf/preprocessor_config.json"), processor.dump());
  const Words from = {"--model.from=" + in("base-hf")};
  expect_fine(train_on("insects", "whole", from));
  expect_fine(train_on("insects", "part", from + Words{"--lora.rank=2", "--lora.targets=q_proj"}));
  expect_fine(hyperion({"export", "part", "--as-adapter", "--to", in("part-hf")}));
  std::filesystem::remove(in("base-hf/preprocessor_config.json"));
  expect_fine(train_on("insects", "whole", from + Words{"--or-resume", "--train.steps=3"}));
  expect_fine(hyperion({"export", "whole", "--to", in("whole-hf")}));
  for (const char* name : {"whole-hf", "part-hf"}) {
    const json written = file(name + std::string("/preprocessor_config.json"));
    EXPECT_NEAR(written["image_mean"][0].get<double>(), 0.48145466, 1e-7) << name;
    EXPECT_NEAR(written["image_std"][1].get<double>(), 0.26130258, 1e-7) << name;
  }
  EXPECT_EQ(classes_of({in("whole-hf")}), classes_of({"whole"}));
  const Finished tried = train_on("insects", "tried", from + Words{"--lora.rank=2", "--dry-run"});
  EXPECT_TRUE(says(tried.out, "trained     an adapter of rank 2")) << tried.out << tried.err;
}

TEST_F(ImageAdapter, of_classes_with_line_breaks_in_their_names_prints_a_line_each) {
  json config = file("base-hf/config.json");
  for (auto& name : config["id2label"]) name = "a\n  99.9%  b";
  write_file(in("base-hf/config.json"), config.dump());
  const Finished done = hyperion({"classify", in("base-hf"), in("pets/cat/0.jpg"), "--top", "1"});
  expect_fine(done);
  EXPECT_EQ(std::count(done.out.begin(), done.out.end(), '\n'), 2) << done.out;
}

TEST_F(ImageAdapter, and_its_base_are_not_written_over) {
  adapt("pets", "mine");
  for (const char* name : {"base-hf/model.safetensors", "mine-lora/adapter_model.safetensors"}) {
    const std::string before = read_file(in(name));
    const Finished done =
        hyperion({"classify", in("base-hf"), in("pets/cat/0.jpg"), "--adapter", in("mine-lora"), "--output", in(name)});
    EXPECT_EQ(done.code, 2) << name;
    EXPECT_TRUE(says(done.err, "own folder")) << done.err;
    EXPECT_TRUE(read_file(in(name)) == before) << name;
  }
}

}  // namespace
}  // namespace hyperion

// What size of images a run takes from the model it starts from, and what may be asked of a ResNet.
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

class ImageBase : public testing::Pictures {
 protected:
  void SetUp() override {
    write_pictures("pets", {"cat", "dog"});
    write_file(in("images.toml"), "[data]\nsource = \"images\"\npath = \"" + in("pets") +
                                      "\"\nvalidation = 0.3\n[train]\nsteps = 2\nbatch = 4\n[optim]\nlr = 0.01\n"
                                      "warmup = 0\n[eval]\nbatches = 1\n");
  }
  // A folder as transformers saves it: its config.json has no image_size.
  void write_resnet(int64_t side) {
    write_file(in("resnet.json"), R"({"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 8],
        "depths": [1, 1], "layer_type": "basic"})");
    expect_fine(start("first", {"--model.config=" + in("resnet.json"), "--model.image=32"}));
    expect_fine(hyperion({"export", "first", "--to", in("base")}));
    json config = json::parse(read_file(in("base/config.json")));
    config.erase("image_size");
    write_file(in("base/config.json"), config.dump());
    json processor = json::parse(read_file(in("base/preprocessor_config.json")));
    processor["size"]["shortest_edge"] = 2 * side;
    processor["crop_size"] = {{"height", side}, {"width", side}};
    write_file(in("base/preprocessor_config.json"), processor.dump());
  }
  Finished start(const std::string& name, const Words& flags) { return hyperion(train("images.toml", name) + flags); }
  Finished start_from_base(const std::string& name, const Words& flags = {}) {
    return start(name, Words{"--model.from=" + in("base")} + flags);
  }
  json side_of(const std::string& name) {
    const auto path = scratch_.runs() / name / "processor/preprocessor_config.json";
    return json::parse(read_file(path))["crop_size"]["height"];
  }
};

TEST_F(ImageBase, a_resnet_is_trained_on_images_as_large_as_its_processor_says) {
  write_resnet(48);
  const Finished done = start_from_base("follows");
  expect_fine(done);
  EXPECT_TRUE(says(done.err, "model.image = 48, as ")) << done.err;
  EXPECT_TRUE(says(done.err, "base/preprocessor_config.json says")) << done.err;
  EXPECT_EQ(side_of("follows"), 48);
  const Finished dry = start_from_base("dry", {"--dry-run"});
  expect_fine(dry);
  const Finished told = start_from_base("dry", {"--dry-run", "--model.image=48"});
  const auto operations = [](const std::string& out) {
    const size_t at = out.find("operations");
    return out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_EQ(operations(dry.out), operations(told.out));
  std::filesystem::remove(in("base/preprocessor_config.json"));  // the run remembers
  expect_fine(start_from_base("follows", {"--or-resume", "--steps", "3"}));
  expect_fine(hyperion({"resume", "follows", "--steps", "4"}));
  expect_fine(hyperion({"export", "follows", "--to", in("exported")}));
  EXPECT_EQ(json::parse(read_file(in("exported/preprocessor_config.json")))["crop_size"]["width"], 48);
}

TEST_F(ImageBase, a_resnet_takes_another_size_beside_model_from) {
  write_resnet(48);
  const Finished done = start_from_base("smaller", {"--model.image=40"});
  expect_fine(done);
  EXPECT_FALSE(says(done.err, "model.image = 48")) << done.err;
  EXPECT_EQ(side_of("smaller"), 40);
  expect_fine(start_from_base("cut", {"--model.image=40", "--parallel.zero=3"}));
  const auto first_loss = [&](const char* name) { return testing::losses(scratch_.runs() / name).at(1).substr(0, 7); };
  EXPECT_EQ(first_loss("cut"), first_loss("smaller"));
}

TEST_F(ImageBase, a_processor_of_a_resnet_that_cannot_be_read_is_told_with_the_size_that_is_taken) {
  write_resnet(65536);
  const Finished dry = start_from_base("dry", {"--dry-run"});
  expect_fine(dry);
  EXPECT_TRUE(says(dry.err, "preprocessor_config.json: crop_size.height is 65536")) << dry.err;
  EXPECT_TRUE(says(dry.err, "images are made 224 pixels a side")) << dry.err;
}

TEST_F(ImageBase, a_vit_keeps_the_size_it_has_learned_places_of) {
  expect_fine(start("first", {"--model.preset=vit-tiny", "--model.layers=1", "--model.image=16", "--model.patch=8"}));
  expect_fine(hyperion({"export", "first", "--to", in("base")}));
  const Finished other = start_from_base("other", {"--model.image=24"});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(says(other.err, "has learned positions in images of 16 pixels a side, and takes no others")) << other.err;
  EXPECT_TRUE(says(testing::hint_line(other), "leave it out")) << other.err;
  expect_fine(start_from_base("same", {"--model.image=16"}));
}

TEST_F(ImageBase, lora_on_a_resnet_is_refused_with_the_reason) {
  write_resnet(32);
  for (const Words& more : {Words{}, {"--model.classes=3"}, {"--dry-run"}}) {
    const Finished done = start_from_base("lora", Words{"--lora.rank=4"} + more);
    EXPECT_EQ(done.code, 2);
    EXPECT_TRUE(says(done.err, "LoRA's layers are linear ones, and a ResNet has only its head")) << done.err;
    EXPECT_TRUE(says(testing::hint_line(done), "leave [lora] out")) << done.err;
  }
}

}  // namespace
}  // namespace hyperion

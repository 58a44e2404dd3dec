#include "hyperion/train/model_for_data.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/models/gpt2.h"
#include "hyperion/train/feed.h"

namespace hyperion::train {
namespace {

// Ten shapes, for a small ViT.
struct Shapes {
  Shapes() {
    config.model.preset = "vit-tiny";
    config.data.source = data::SourceKind::shapes;
    config.data.images = 40;
  }
  ModelForData fitted() const {
    strategy::ModelShape shape;
    shape.image = 32;
    return model_for_data(config, model_config(base::real_files(), config), open_split(config, shape));
  }
  RunConfig config;
};

TEST(ModelForData, classes_and_their_names_are_those_of_the_data) {
  const auto [text, said] = Shapes().fitted();
  const auto config = base::parse_json(text, "model");
  EXPECT_EQ(config.at("id2label").size(), 10u);
  EXPECT_EQ(config.at("id2label").at("1"), "ring");
  EXPECT_EQ(config.at("label2id").at("ring"), 1);
  EXPECT_TRUE(said.empty());
}

TEST(ModelForData, more_classes_than_the_data_has_are_warned_of) {
  Shapes shapes;
  shapes.config.model.classes = 12;
  const auto [text, said] = shapes.fitted();
  EXPECT_EQ(base::parse_json(text, "model").at("id2label").at("11"), "LABEL_11");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "model.classes = 12, and the data has 10 classes: 2 will never be seen");
}

TEST(ModelForData, fewer_classes_than_the_data_has_are_refused_with_a_way_out) {
  Shapes shapes;
  shapes.config.model.classes = 9;
  try {
    shapes.fitted();
    FAIL();
  } catch (const base::ConfigError& error) {
    EXPECT_STREQ(error.what(), "model.classes = 9, and the data has 10 classes");
    EXPECT_NE(error.hint().find("leave it out"), std::string::npos);
  }
}

// What is said of a model that was saved with those classes, named so, or without a head.
std::vector<std::string> said_of(int64_t classes, const std::string& second, const char* architecture) {
  Shapes shapes;
  auto config = base::parse_json(shapes.fitted().config, "model");
  config.erase("id2label"), config.erase("label2id"), config.erase("num_labels");
  for (int64_t i = 0; i < classes; ++i) {
    const auto names = base::parse_json(shapes.fitted().config, "model").at("id2label");
    const std::string key = std::to_string(i), name = i == 1 ? second : names.at(key).get<std::string>();
    config["id2label"][key] = name, config["label2id"][name] = i;
  }
  config["architectures"] = {architecture};
  const strategy::ModelShape shape = [] {
    strategy::ModelShape small;
    small.image = 32;
    return small;
  }();
  shapes.config.model.from = "base";
  return model_for_data(shapes.config, config.dump(), open_split(shapes.config, shape)).said;
}

TEST(ModelForData, the_first_class_that_differs_is_named_where_the_head_is_kept) {
  const auto said = said_of(10, "zebra", "ViTForImageClassification");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "the head of model.from = \"base\" is kept; class 1, \"zebra\" there, is \"ring\" here");
  EXPECT_TRUE(said_of(10, "ring", "ViTForImageClassification").empty());
}

TEST(ModelForData, nothing_is_said_of_the_classes_of_a_model_without_a_head) {
  EXPECT_EQ(said_of(2, "ring", "ViTForImageClassification").size(), 1u);
  EXPECT_TRUE(said_of(2, "ring", "ViTModel").empty());
}

TEST(ModelForData, new_tokens_are_told_of_where_the_table_has_rows_for_them) {
  RunConfig config;
  config.model.from = "base";
  config.data.sums = 1000;
  models::Gpt2Config small;
  small.layers = 1, small.heads = 1, small.width = 8, small.context = 16, small.vocabulary = 255;
  const std::string base = models::make_gpt2(small)->config_json();
  strategy::ModelShape shape;
  shape.context = 16, shape.vocabulary = 255;
  const auto said = model_for_data(config, base, open_split(config, shape), {253, 254, 255}).said;
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(
      said[0],
      "the data has 256 token ids and model.from = \"base\" 255: it gets 1 new, which begin as the mean of the others");
  EXPECT_EQ(
      said[1],
      "the data has 2 new tokens that model.from = \"base\" has spare rows for: they begin as the mean of the others");
}

}  // namespace
}  // namespace hyperion::train

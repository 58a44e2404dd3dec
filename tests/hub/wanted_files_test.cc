#include <gtest/gtest.h>

#include <algorithm>

#include "hyperion/hub/listing.h"

namespace hyperion::hub {
namespace {

std::vector<std::string> wanted_names(RepoKind kind, const std::vector<std::string>& names,
                                      const std::vector<std::string>& only = {}) {
  std::vector<RemoteFile> files;
  for (const auto& name : names) files.push_back({name, 0, ""});
  std::vector<std::string> wanted;
  for (const auto& file : wanted_files({kind, "o/n"}, files, only)) wanted.push_back(file.name);
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

using Names = std::vector<std::string>;

TEST(WantedFiles, OfAModelAreWeightsConfigurationAndTokenizerAndNeverPickles) {
  EXPECT_EQ(wanted_names(RepoKind::model,
                         {".gitattributes", "README.md", "config.json", "generation_config.json", "merges.txt",
                          "model.safetensors", "model.fp16.safetensors", "onnx/model.onnx", "pytorch_model.bin",
                          "tf_model.h5", "flax_model.msgpack", "tokenizer.json", "tokenizer.pkl", "tokenizer.py",
                          "tokenizer_config.json", "vocab.json", "chat_template.jinja", "original/model.safetensors"}),
            (Names{"chat_template.jinja", "config.json", "generation_config.json", "merges.txt", "model.safetensors",
                   "tokenizer.json", "tokenizer_config.json", "vocab.json"}));
}

TEST(WantedFiles, OfAModelInShardsAreTheIndexAndItsShardsNotOtherForms) {
  EXPECT_EQ(
      wanted_names(RepoKind::model, {"config.json", "consolidated.safetensors", "model-00001-of-00002.safetensors",
                                     "model-00002-of-00002.safetensors", "model.safetensors.index.json"}),
      (Names{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
             "model.safetensors.index.json"}));
  EXPECT_EQ(wanted_names(RepoKind::model, {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin",
                                           "classes.json", "preprocessor_config.json"}),
            (Names{"adapter_config.json", "adapter_model.safetensors", "classes.json", "preprocessor_config.json"}));
}

TEST(WantedFiles, OfAModelWithPicklesAloneAreRefused) {
  try {
    wanted_names(RepoKind::model, {"config.json", "tokenizer.json", "pytorch_model.bin"});
    FAIL() << "a pickle was wanted";
  } catch (const base::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("pytorch_model.bin"), std::string::npos) << error.what();
    EXPECT_NE(error.hint().find("refs/pr/1"), std::string::npos) << error.hint();
  }
}

TEST(WantedFiles, OfASetAreRecordsThatFitThePatterns) {
  const Names all = {"README.md", "a/train-0.parquet", "b/train.jsonl.zst", "b/x.arrow", "load.py", "words.txt.gz",
                     "y.bin"};
  EXPECT_EQ(wanted_names(RepoKind::set, all),
            (Names{"README.md", "a/train-0.parquet", "b/train.jsonl.zst", "words.txt.gz"}));
  EXPECT_EQ(wanted_names(RepoKind::set, all, {"a/*", "*.gz"}), (Names{"a/train-0.parquet", "words.txt.gz"}));
  EXPECT_THROW(wanted_names(RepoKind::set, all, {"c/*"}), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::hub

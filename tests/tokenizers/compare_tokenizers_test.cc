#include "hyperion/tokenizers/compare_tokenizers.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "tests/base/support_child.h"

namespace hyperion::tokenizers {
namespace {

using base::Json;

// A byte-level BPE as `tokenizers` saves it.
Json byte_level() {
  return Json::parse(R"({
    "added_tokens": [{"id": 5, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": [["a", "b"], ["ab", "c"]]}
  })");
}

bool same_after(void (*change)(Json& tokenizer)) {
  Json changed = byte_level();
  change(changed);
  const std::string one = byte_level().dump(), other = changed.dump();
  EXPECT_NE(one, other) << "nothing was changed";
  EXPECT_EQ(extends_tokenizer(one, other), same_tokenizer(one, other));
  EXPECT_EQ(extends_tokenizer(other, one), same_tokenizer(one, other));
  return same_tokenizer(one, other);
}

TEST(CompareTokenizers, merges_are_the_same_as_texts_and_as_pairs) {
  EXPECT_TRUE(same_after([](Json& json) { json["model"]["merges"] = {"a b", "ab c"}; }));
  EXPECT_FALSE(same_after([](Json& json) {
    json["model"]["merges"] = {"ab c", "a b"};
  })) << "their order is their rank";
  EXPECT_FALSE(same_after([](Json& json) { json["model"]["merges"] = {"a b"}; }));
}

TEST(CompareTokenizers, what_a_file_may_leave_out_is_the_same_left_out) {
  EXPECT_TRUE(same_after([](Json& json) {
    for (const char* field : {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                              "fuse_unk", "byte_fallback", "ignore_merges"})
      json["model"].erase(field);
  }));
  EXPECT_TRUE(same_after([](Json& json) {
    for (const char* field : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
      json["model"][field] = "";
    json["model"]["dropout"] = 0.0;
  }));
  EXPECT_TRUE(same_after([](Json& json) {
    auto& split = json["pre_tokenizer"]["pretokenizers"][0];
    split.erase("behavior"), split.erase("invert");
    for (const char* field : {"single_word", "lstrip", "rstrip", "normalized"}) json["added_tokens"][0].erase(field);
  }));
}

TEST(CompareTokenizers, what_is_of_offsets_or_of_decoding_alone_changes_no_id) {
  EXPECT_TRUE(same_after([](Json& json) { json["pre_tokenizer"]["pretokenizers"][1]["trim_offsets"] = false; }));
  EXPECT_TRUE(same_after([](Json& json) { json["decoder"] = {{"type", "ByteLevel"}, {"use_regex", false}}; }));
  EXPECT_TRUE(same_after([](Json& json) { json["added_tokens"][0]["special"] = false; }));
}

TEST(CompareTokenizers, a_step_is_the_same_alone_and_in_a_sequence) {
  EXPECT_TRUE(same_after([](Json& json) {
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array({json["normalizer"]})}};
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({json["pre_tokenizer"]})}};
  }));
  EXPECT_FALSE(same_after([](Json& json) {
    auto& steps = json["pre_tokenizer"]["pretokenizers"];
    std::swap(steps[0], steps[1]);
  }));
}

TEST(CompareTokenizers, what_changes_ids_is_another_tokenizer) {
  EXPECT_FALSE(same_after([](Json& json) { json["normalizer"] = nullptr; }));
  EXPECT_FALSE(same_after([](Json& json) { json["normalizer"]["type"] = "NFKC"; }));
  EXPECT_FALSE(same_after([](Json& json) { json["model"]["vocab"]["c"] = 6; }));
  EXPECT_FALSE(same_after([](Json& json) { json["model"]["ignore_merges"] = true; }));
  EXPECT_FALSE(same_after([](Json& json) { json["model"]["unk_token"] = "a"; }));
  EXPECT_FALSE(same_after([](Json& json) { json["model"]["end_of_word_suffix"] = "</w>"; }));
  EXPECT_FALSE(same_after([](Json& json) { json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\s"; }));
  EXPECT_FALSE(same_after([](Json& json) { json["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }));
  EXPECT_FALSE(same_after([](Json& json) { json["pre_tokenizer"]["pretokenizers"][1].erase("add_prefix_space"); }));
  EXPECT_FALSE(same_after([](Json& json) { json["pre_tokenizer"]["pretokenizers"][1].erase("use_regex"); }));
  EXPECT_FALSE(same_after([](Json& json) { json["added_tokens"][0]["lstrip"] = true; }));
  EXPECT_FALSE(same_after([](Json& json) { json["added_tokens"][0]["content"] = "<t>"; }));
}

TEST(CompareTokenizers, metaspace_is_the_same_by_its_old_name_and_by_its_new) {
  const auto with = [](const char* step) {
    return R"({"model": {"vocab": {}}, "pre_tokenizer": )" + std::string(step) + "}";
  };
  const auto old = with(R"({"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": true})");
  EXPECT_TRUE(same_tokenizer(old, with(R"({"type": "Metaspace", "prepend_scheme": "always", "split": true})")));
  EXPECT_FALSE(same_tokenizer(old, with(R"({"type": "Metaspace", "prepend_scheme": "first"})")));
  EXPECT_FALSE(same_tokenizer(old, with(R"({"type": "Metaspace", "split": false})")));
  EXPECT_FALSE(same_tokenizer(old, with(R"({"type": "Metaspace", "add_prefix_space": false})")));
}

Json with_tokens(std::initializer_list<std::pair<int, const char*>> tokens) {
  Json json = byte_level();
  for (const auto& [id, content] : tokens) json["added_tokens"].push_back({{"id", id}, {"content", content}});
  return json;
}

TEST(CompareTokenizers, a_tokenizer_with_more_tokens_extends_another) {
  const std::string small = byte_level().dump(), large = with_tokens({{6, "<u>"}}).dump();
  EXPECT_TRUE(extends_tokenizer(large, small));
  EXPECT_FALSE(extends_tokenizer(small, large));
  EXPECT_FALSE(same_tokenizer(small, large));
  EXPECT_TRUE(
      same_tokenizer(with_tokens({{6, "<u>"}, {7, "<v>"}}).dump(), with_tokens({{7, "<v>"}, {6, "<u>"}}).dump()));
  EXPECT_FALSE(extends_tokenizer(with_tokens({{6, "<v>"}}).dump(), large)) << "an id of another token";
}

TEST(CompareTokenizers, a_file_that_is_no_json_is_named_with_its_folder) {
  base::test::TestFolder folder;
  base::write_atomically(base::real_files(), folder / "tokenizer.json", "{");
  const auto broken = read_tokenizer(base::real_files(), folder / "tokenizer.json");
  const auto told = base::test::error_of<base::CorruptError>([&] { extends_tokenizer(byte_level().dump(), broken); });
  EXPECT_NE(told.find((folder / "tokenizer.json").string() + " is not JSON"), std::string::npos) << told;
}

TEST(CompareTokenizers, files_that_are_no_tokenizers_are_compared_as_they_are) {
  for (const std::string odd :
       {"[]", "{}", R"({"model": 7, "added_tokens": [3, {}], "normalizer": [], "decoder": {"type": 1}})",
        R"({"model": {"vocab": 3, "type": null, "merges": [7, []]}, "added_tokens": {"a": null}})"}) {
    EXPECT_TRUE(same_tokenizer(odd, odd + " "));
    EXPECT_FALSE(extends_tokenizer(byte_level().dump(), odd));
    EXPECT_FALSE(extends_tokenizer(odd, byte_level().dump()));
  }
}

class AddedTokens : public ::testing::Test {
 protected:
  AddedTokens() {
    std::string name = (std::filesystem::temp_directory_path() / "hyperion-tokens-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    for (const char* folder : {"base", "data"}) std::filesystem::create_directories(root_ / folder);
    write("base/tokenizer.json", byte_level());
    write("data/tokenizer.json", with_tokens({{9, "<w>"}, {6, "<u>"}, {4, "abc"}}));
  }
  ~AddedTokens() override { std::filesystem::remove_all(root_); }

  void write(const char* name, const Json& json) {
    base::write_atomically(base::real_files(), root_ / name, json.dump());
  }
  std::vector<int64_t> found() const { return tokens_added(base::real_files(), root_ / "data", root_ / "base"); }

  base::Path root_;
};

TEST_F(AddedTokens, are_those_that_the_other_has_neither_added_nor_in_its_model) {
  EXPECT_EQ(found(), std::vector<int64_t>({6, 9}));
}

TEST_F(AddedTokens, are_known_also_by_the_files_beside) {
  write("base/tokenizer_config.json", {{"added_tokens_decoder", {{"6", {{"content", "<u>"}}}}}});
  EXPECT_EQ(found(), std::vector<int64_t>({9}));
  write("base/added_tokens.json", {{"<w>", 9}});
  EXPECT_TRUE(found().empty());
  write("base/added_tokens.json", {{"<x>", 9}});
  EXPECT_EQ(found(), std::vector<int64_t>({9})) << "that id was another token's";
}

TEST_F(AddedTokens, are_none_of_a_tokenizer_that_is_another) {
  Json other = byte_level();
  other["normalizer"] = nullptr;
  write("base/tokenizer.json", other);
  EXPECT_TRUE(found().empty());
  std::filesystem::remove(root_ / "base/tokenizer.json");
  EXPECT_TRUE(found().empty());
}

}  // namespace
}  // namespace hyperion::tokenizers

// A tokenizer.json comes with models from anywhere: none may fill the memory, and what is wrong with one is said.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {
namespace {

using Json = nlohmann::json;

Json letters() {
  return {{"model",
           {{"type", "BPE"},
            {"unk_token", "a"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
            {"merges", Json::array({Json::array({"a", "b"})})}}}};
}

template <class Use>
std::string tokenizer_fault(const Json& json, Use use) {
  try {
    use(*read_tokenizer(json.dump(), "some/tokenizer.json"));
  } catch (const base::CorruptError& error) {
    return error.what();
  }
  return "";
}
std::string opening_fault(const Json& json) {
  return tokenizer_fault(json, [](const Tokenizer&) {});
}

Json sequence(const char* key, const Json& step, int count) {
  return {{"type", "Sequence"}, {key, std::vector<Json>(count, step)}};
}

TEST(TokenizerLimits, a_normalizer_makes_only_so_much_of_a_text) {
  const Json doubles = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto encode = [](const Tokenizer& tokenizer) { tokenizer.encode(std::string(1000, 'a')); };
  const auto trace = [](const Tokenizer& tokenizer) { tokenizer.encode_with_offsets(std::string(1000, 'a')); };
  auto json = letters();
  json["normalizer"] = sequence("normalizers", doubles, 4);
  EXPECT_EQ(tokenizer_fault(json, encode), "");
  json["normalizer"] = sequence("normalizers", doubles, 40);
  EXPECT_NE(tokenizer_fault(json, encode).find("more than 32 times"), std::string::npos);
  EXPECT_NE(tokenizer_fault(json, trace).find("more than 32 times"), std::string::npos);
  json["normalizer"] = doubles;
  json["normalizer"]["content"] = std::string(1 << 20, 'a');
  EXPECT_NE(tokenizer_fault(json, encode).find("more than 32 times"), std::string::npos);
  json["added_tokens"] = {{{"id", 3}, {"content", "aaa"}, {"normalized", true}, {"special", false}}};
  EXPECT_NE(opening_fault(json).find("some/tokenizer.json: the tokenizer makes more than"), std::string::npos);
}

TEST(TokenizerLimits, a_pre_tokenizer_makes_only_so_much_of_a_text) {
  auto json = letters();
  Json steps = Json::array();
  for (int i = 0; i < 60; ++i) steps.push_back({{"type", "Metaspace"}, {"replacement", i % 2 == 0 ? "a" : "b"}});
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  EXPECT_NE(
      tokenizer_fault(json, [](const Tokenizer& tokenizer) { tokenizer.encode("ab"); }).find("more than 32 times"),
      std::string::npos);
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "ab"}};
  EXPECT_NE(opening_fault(json).find("not one character"), std::string::npos);
}

TEST(TokenizerLimits, a_decoder_makes_only_so_much_of_its_tokens) {
  auto json = letters();
  const Json doubles = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json["decoder"] = sequence("decoders", doubles, 40);
  const auto decode = [](const Tokenizer& tokenizer) { tokenizer.decode(std::vector<TokenId>(100, 0)); };
  EXPECT_NE(tokenizer_fault(json, decode).find("more than 32 times"), std::string::npos);
  json["decoder"] = sequence("decoders", doubles, 4);
  EXPECT_EQ(tokenizer_fault(json, decode), "");
}

TEST(TokenizerLimits, ids_out_of_range_or_given_twice_are_refused_with_the_file) {
  const auto with = [](const char* place, const Json& value) {
    auto json = letters();
    json[Json::json_pointer(place)] = value;
    return opening_fault(json);
  };
  const std::string file = "some/tokenizer.json: ";
  EXPECT_EQ(with("/model/vocab/c", 1), file + "the tokens \"b\" and \"c\" both have the id 1");
  EXPECT_EQ(with("/model/vocab/c", -1), file + "the token \"c\" has the id -1");
  EXPECT_EQ(with("/model/vocab/c", int64_t{1} << 40), file + "the token \"c\" has the id 1099511627776");
  EXPECT_EQ(with("/model/vocab/c", 1.5), file + "an id is not a whole number");
  const Json first = {{"id", 7}, {"content", "<s>"}}, second = {{"id", 7}, {"content", "</s>"}};
  EXPECT_EQ(with("/added_tokens", {first, second}), file + "the added tokens \"<s>\" and \"</s>\" both have the id 7");
  EXPECT_EQ(with("/added_tokens", {first, first}), "");
}

TEST(TokenizerLimits, a_part_of_another_form_is_named) {
  const auto with = [](const char* place, const Json& value) {
    auto json = letters();
    json[Json::json_pointer(place)] = value;
    return opening_fault(json);
  };
  const std::string file = "some/tokenizer.json: ";
  EXPECT_EQ(with("/model/merges", {5}), file + "in \"merges\", where an object or a list should be, there is a number");
  EXPECT_EQ(with("/added_tokens", {{{"id", 7}}}), file + "in \"added_tokens\", \"content\" is missing");
  EXPECT_EQ(with("/model/vocab", 3), file + "the vocabulary is not an object of tokens and their ids");
}

}  // namespace
}  // namespace hyperion::tokenizers

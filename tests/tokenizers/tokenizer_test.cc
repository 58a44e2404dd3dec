#include "hyperion/tokenizers/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/text/unicode.h"
#include "hyperion/tokenizers/bpe_trainer.h"
#include "hyperion/tokenizers/open_tokenizer.h"

namespace hyperion::tokenizers {
namespace {

using base::Json;
using Ids = std::vector<TokenId>;

class TokenizerFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / base::format("tokenizer-{}-{}", ::getpid(), counter_++);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  base::Path write(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  std::unique_ptr<const Tokenizer> open(const Json& json) const {
    return open_tokenizer(write("tokenizer.json", json.dump()));
  }

  // What opening fails with; empty: it does not.
  std::string failure(const Json& json) const {
    try {
      open(json);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  }

  // Bytes and a few merges, with a special token.
  static Json trained(std::string_view text = "low lower lowest newer newest wider", int64_t size = 290) {
    BpeTrainer trainer({Pattern::kGpt2, size, 0, {"<|end|>"}});
    trainer.add(text);
    return Json::parse(trainer.train());
  }
  // Characters with ▁ for spaces.
  static Json llama() {
    Json vocabulary = {{"<unk>", 0},
                       {"<s>", 1},
                       {"\xE2\x96\x81", 2},
                       {"a", 3},
                       {"b", 4},
                       {"\xE2\x96\x81"
                        "a",
                        5},
                       {"<0xC3>", 6},
                       {"<0xA9>", 7}};
    return {{"added_tokens", {{{"id", 1}, {"content", "<s>"}, {"special", true}}}},
            {"normalizer",
             {{"type", "Sequence"},
              {"normalizers",
               {{{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}},
                {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}}}}},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
              {"special_tokens", {{"<s>", {{"ids", {1}}}}}}}},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders",
               {{{"type", "Replace"}, {"pattern", {{"String", "\xE2\x96\x81"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}},
                {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
            {"model",
             {{"type", "BPE"},
              {"unk_token", "<unk>"},
              {"byte_fallback", true},
              {"fuse_unk", true},
              {"vocab", vocabulary},
              {"merges", Json::array({Json::array({"\xE2\x96\x81", "a"})})}}}};
  }

  base::Path folder_;
  static inline std::atomic<int> counter_ = 0;
};

TEST_F(TokenizerFiles, byte_level_text_comes_back_and_added_tokens_are_found) {
  const auto tokenizer = open(trained());
  const std::string text = "lowest<|end|> \xE4\xBD\xA0\n";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->decode(ids, true), "lowest \xE4\xBD\xA0\n");
  EXPECT_EQ(tokenizer->id_of("<|end|>"), 0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 1);
  EXPECT_EQ(tokenizer->added_tokens().size(), 1u);
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST_F(TokenizerFiles, starts_say_where_each_token_begins) {
  const auto tokenizer = open(trained());
  const auto ids = tokenizer->encode("newest lower");
  const auto decoded = tokenizer->decode_with_starts(ids);
  ASSERT_EQ(decoded.starts.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(decoded.starts[i], tokenizer->decode(std::span(ids).first(i)).size());
}

TEST_F(TokenizerFiles, characters_fall_back_to_bytes_then_to_unknown) {
  const auto tokenizer = open(llama());
  EXPECT_EQ(tokenizer->encode("a b"), (Ids{1, 5, 2, 4}));
  EXPECT_EQ(tokenizer->encode("a\xC3\xA9zz", false), (Ids{5, 6, 7, 0}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab a\xC3\xA9", false)), "ab a\xC3\xA9");
  EXPECT_EQ(tokenizer->decode(Ids{5, 6, 4}),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(tokenizer->decode_with_starts(Ids{5, 2, 4}).starts, (std::vector<size_t>{0, 1, 2}));
}

TEST_F(TokenizerFiles, bytes_that_are_not_utf8_are_encoded_or_refused) {
  const auto bytes = open(trained());
  const std::string text = "low <|end|>\xFF\xFE low";
  EXPECT_EQ(bytes->decode(bytes->encode(text)), text);
  EXPECT_THROW(open(llama())->encode("a\xFF"), base::CorruptError);
}

TEST_F(TokenizerFiles, an_unknown_component_is_named) {
  const auto with = [&](const char* key, const Json& value) {
    auto json = trained();
    json[key] = value;
    return failure(json);
  };
  EXPECT_NE(with("normalizer", {{"type", "Sparkle"}}).find("normalizer \"Sparkle\""), std::string::npos);
  EXPECT_NE(with("pre_tokenizer", {{"type", "Scissors"}}).find("pre_tokenizer \"Scissors\""), std::string::npos);
  EXPECT_NE(with("post_processor", {{"type", "Bow"}}).find("post_processor \"Bow\""), std::string::npos);
  EXPECT_NE(with("decoder", {{"type", "Enigma"}}).find("decoder \"Enigma\""), std::string::npos);
  EXPECT_NE(with("model", {{"type", "Oracle"}}).find("model \"Oracle\""), std::string::npos);
  EXPECT_NE(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a|b)\\hc"}}}, {"behavior", "Isolated"}})
                .find("(a|b)\\hc"),
            std::string::npos);
}

// transformers leaves both in the file where its user asked for them once, and passes over them when it reads it.
TEST_F(TokenizerFiles, lengths_that_a_file_asks_for_are_those_of_who_asks_for_them) {
  const std::string text = "one two three four five";
  const auto ids = open(trained())->encode(text);
  ASSERT_GT(ids.size(), 4u);
  auto json = trained();
  json["truncation"] = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Right"}};
  EXPECT_EQ(open(json)->encode(text), ids);
  EXPECT_EQ(open_tokenizer(folder_ / "tokenizer.json", {}, Lengths::as_file)->encode(text).size(), 3u);
  json.erase("truncation");
  json["padding"] = {{"strategy", {{"Fixed", 90}}},
                     {"direction", "Right"},
                     {"pad_to_multiple_of", nullptr},
                     {"pad_id", 0},
                     {"pad_type_id", 0},
                     {"pad_token", "<pad>"}};
  EXPECT_EQ(open(json)->encode(text), ids);
  EXPECT_EQ(open_tokenizer(folder_ / "tokenizer.json", {}, Lengths::as_file)->encode(text).size(), 90u);
}

TEST_F(TokenizerFiles, a_damaged_file_is_refused_with_its_name) {
  auto json = trained();
  json["model"]["merges"].push_back({"\xC4\xA0", "nowhere"});
  EXPECT_NE(failure(json).find("tokenizer.json"), std::string::npos);
  json = trained();
  json["model"]["vocab"]["huge"] = int64_t{1} << 40;
  EXPECT_NE(failure(json), "");
  json = trained();
  json["added_tokens"][0]["id"] = -5;
  EXPECT_NE(failure(json), "");
  json = trained();
  json["model"]["vocab"] = "text";
  EXPECT_NE(failure(json), "");
  EXPECT_THROW(open_tokenizer(write("tokenizer.json", "{\"model\": {")), base::CorruptError);
  EXPECT_THROW(open_tokenizer(write("tokenizer.json", std::string(200'000, '{'))), base::CorruptError);
  EXPECT_THROW(open_tokenizer(folder_ / "nothing"), base::ConfigError);
}

TEST_F(TokenizerFiles, changed_bytes_in_a_file_never_crash) {
  std::mt19937 random(3);
  const std::string files[] = {trained().dump(), llama().dump()};
  for (int trial = 0; trial < 300; ++trial) {
    std::string content = files[trial % 2];
    for (int change = 0; change < 1 + trial % 3; ++change)
      content[random() % content.size()] = "\"{}[],:0-9xA\xFF"[random() % 13];
    try {
      const auto tokenizer = open_tokenizer(write("tokenizer.json", content));
      tokenizer->decode(tokenizer->encode("lowest \xE4\xBD\xA0 a b<s>"));
    } catch (const base::Error&) {
    }
  }
}

TEST_F(TokenizerFiles, rank_files_say_which_line_is_wrong) {
  std::string ranks;
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int byte = 0; byte < 256; ++byte)
    ranks += base::format("{}{}== {}\n", digits[byte >> 2], digits[(byte & 3) << 4], byte);
  const auto opened = open_tokenizer(write("x.tiktoken", ranks + "YWE= 256\n"), "gpt2");  // "aa"
  EXPECT_EQ(opened->encode("aaa b"), (Ids{256, 'a', ' ', 'b'}));
  EXPECT_EQ(opened->token(' '), "\xC4\xA0");
  EXPECT_EQ(opened->vocabulary_size(), 257);
  EXPECT_THROW(open_tokenizer(folder_ / "x.tiktoken"), base::ConfigError);  // nothing says how text is cut
  for (const std::string wrong : {"YWE 256x\n", "Y?E= 256\n", "YWE=\n", "YQ== 300\n"}) try {
      open_tokenizer(write("y.tiktoken", ranks + wrong), "gpt2");
      ADD_FAILURE() << wrong;
    } catch (const base::CorruptError& error) {
      EXPECT_NE(std::string(error.what()).find("y.tiktoken:257"), std::string::npos) << error.what();
    }
  EXPECT_THROW(open_tokenizer(write("z.tiktoken", ranks.substr(20)), "gpt2"), base::CorruptError);
}

TEST_F(TokenizerFiles, vocabulary_and_merges_open_as_the_json_does) {
  const auto json = trained();
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : json["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  write("vocab.json", json["model"]["vocab"].dump());
  write("merges.txt", merges);
  const auto whole = open_tokenizer(folder_);
  EXPECT_EQ(whole->encode("lowest newer"), open(json)->encode("lowest newer"));
}

TEST_F(TokenizerFiles, unknown_ids_cannot_be_decoded) {
  const auto tokenizer = open(trained());
  EXPECT_THROW(tokenizer->decode(Ids{100'000}), base::ConfigError);
  EXPECT_THROW(tokenizer->decode(Ids{-1}), base::ConfigError);
}

TEST_F(TokenizerFiles, offsets_are_the_bytes_that_each_token_came_from) {
  const auto bytes = open(trained());
  const std::string text = "lowest\xC3\xA9<|end|> new";
  const auto [ids, ranges] = bytes->encode_with_offsets(text);
  EXPECT_EQ(ids, bytes->encode(text));
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(bytes->decode({&ids[i], 1}), text.substr(ranges[i].begin, ranges[i].end - ranges[i].begin));

  const auto pieces = open(llama())->encode_with_offsets("a b\xC3\xA9");
  EXPECT_EQ(pieces.ids, (Ids{1, 5, 2, 4, 6, 7}));  // <s> ▁a ▁ b <0xC3> <0xA9>
  EXPECT_EQ(pieces.ranges, (std::vector<text::ByteRange>{{0, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
}

TEST_F(TokenizerFiles, offsets_are_the_same_with_and_without_merging_anew) {
  auto json = trained("low lower lowest newer newest wider", 320);
  const auto fast = open(json);
  json["model"]["unk_token"] = "<|end|>";  // then a byte may be unknown, and each piece is merged with its ranges
  json["model"]["vocab"]["<|end|>"] = fast->id_of("<|end|>").value();
  const auto plain = open(json);
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = 0, size = random() % 200; i < size; ++i) text += "lowerst newid\n\xC3\xA9"[random() % 15];
    while (text::valid_prefix(text) != text.size()) text.erase(text::valid_prefix(text), 1);
    const auto a = fast->encode_with_offsets(text), b = plain->encode_with_offsets(text);
    ASSERT_EQ(a.ids, b.ids) << text;
    ASSERT_EQ(a.ranges, b.ranges) << text;
  }
}

TEST_F(TokenizerFiles, offsets_of_bytes_that_are_not_utf8_cover_them) {
  const auto bytes = open(trained());
  const std::string text = "low <|end|> lower\xFF new\xC3";
  const auto [ids, ranges] = bytes->encode_with_offsets(text);
  EXPECT_EQ(ids, bytes->encode(text));
  size_t at = 0;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, at);
    at = end;
  }
  EXPECT_EQ(at, text.size());
}

TEST_F(TokenizerFiles, threads_share_a_tokenizer) {
  const auto tokenizer = open(trained());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += base::format("low{} newest ", i % 97);
  const auto expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) wrong += tokenizer->encode(text) != expected;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TokenizerFiles, any_number_of_threads_gives_the_same_ids) {
  const auto tokenizer = open(trained());
  std::mt19937 random(5);
  std::string text;
  while (text.size() < 3 << 20) {
    constexpr std::string_view words[] = {"low", " newest",      "  ", "\n",     "'s",
                                          " 12", "\xE4\xBD\xA0", "!",  " wider", "\t"};
    text += words[random() % std::size(words)];
  }
  EXPECT_EQ(tokenizer->encode(text, true, 3), tokenizer->encode(text, true, 1));
}

TEST(BpeTrainer, a_vocabulary_too_small_for_bytes_is_refused) {
  EXPECT_THROW(BpeTrainer({Pattern::kGpt2, 256, 0, {"<|end|>"}}), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::tokenizers

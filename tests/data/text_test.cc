#include "hyperion/data/text.h"

#include <gtest/gtest.h>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/data/open_data.h"
#include "tests/base/support_child.h"

namespace hyperion::data {
namespace {

using base::test::error_of;

class TextTest : public ::testing::Test {
 protected:
  DataConfig with(const std::string& content, double validation) {
    base::write_atomically(base::real_files(), folder_ / "text", content);
    DataConfig config;
    config.source = SourceKind::text;
    config.path = {(folder_ / "text").string()};
    config.validation = validation;
    return config;
  }
  base::test::TestFolder folder_;
};

std::string read(const Source& source, int64_t index, int64_t tokens) {
  std::vector<int64_t> out(tokens);
  source.read(index, {out, {}, {}});
  for (const int64_t token : out) EXPECT_TRUE(token >= 0 && token < 256);
  return {out.begin(), out.end()};
}

TEST_F(TextTest, samples_tile_both_parts_and_share_no_byte) {
  std::string content;
  for (int i = 0; i < 1003; ++i) content += static_cast<char>(i * 31 + i / 256);
  for (const int64_t length : {1, 7, 10, 100}) {
    const Split split = open_data(with(content, 0.2), {length, 0}, 1);
    const auto expect_tiles = [&](const Source& source, size_t first, size_t end) {
      EXPECT_EQ(source.samples(), static_cast<int64_t>((end - first - 1) / length));
      for (int64_t index = 0; index < source.samples(); ++index) {
        EXPECT_LE(first + index * length + length + 1, end);
        EXPECT_EQ(read(source, index, length + 1), content.substr(first + index * length, length + 1));
      }
    };
    expect_tiles(*split.train, 0, 803);
    expect_tiles(*split.validation, 803, 1003);
    EXPECT_TRUE(split.questions.empty());
  }
}

TEST_F(TextTest, high_bytes_are_tokens_128_to_255) {
  const Split split = open_data(with(std::string(20, '\xff'), 0.5), {5, 0}, 1);
  std::vector<int64_t> out(6);
  split.train->read(0, {out, {}, {}});
  EXPECT_EQ(out, std::vector<int64_t>(6, 255));
}

TEST_F(TextTest, a_text_too_short_for_either_part_is_refused) {
  const auto refusal = [&](size_t bytes, double validation, int64_t length) {
    return error_of<base::ConfigError>([&] { open_data(with(std::string(bytes, 'x'), validation), {length, 0}, 1); });
  };
  EXPECT_NE(refusal(0, 0.5, 1).find("has 0 bytes"), std::string::npos);
  EXPECT_NE(refusal(11, 0.5, 5).find("too few for a sequence of 5"), std::string::npos);
  EXPECT_EQ(refusal(12, 0.5, 5), "");
  EXPECT_NE(refusal(1000, 0.0001, 5).find("data.validation"), std::string::npos);
  EXPECT_NE(refusal(1000, 0.05, 50).find("(950 and 50 bytes)"), std::string::npos);
}

TEST_F(TextTest, a_text_that_cannot_be_opened_is_named) {
  DataConfig config = with("x", 0.5);
  config.path = {(folder_ / "missing.txt").string()};
  EXPECT_NE(error_of<base::ConfigError>([&] { open_data(config, {4, 0}, 1); }).find("missing.txt"), std::string::npos);
  config.path = {folder_.path().string()};
  EXPECT_NE(error_of<base::ConfigError>([&] { open_data(config, {4, 0}, 1); }).find(folder_.path()), std::string::npos);
}

TEST_F(TextTest, a_read_beyond_a_sample_is_refused) {
  const Split split = open_data(with(std::string(100, 'x'), 0.5), {5, 0}, 1);
  EXPECT_THROW(read(*split.train, 0, 7), base::Error);
  EXPECT_EQ(read(*split.train, 0, 3), "xxx");
}

TEST(DataSettings, that_contradict_each_other_are_refused) {
  DataConfig config;
  config.path = {"x.txt"};
  EXPECT_NE(error_of<base::ConfigError>([&] { check(config); }).find("--data.source=text"), std::string::npos);
  config = {};
  config.source = SourceKind::text;
  EXPECT_NE(error_of<base::ConfigError>([&] {
              open_data(config, {4, 0}, 1);
            }).find("--data.path=PATH"),
            std::string::npos);
  EXPECT_EQ(error_of([] { check(DataConfig{}); }), "");
}

TEST(DataSettings, are_named_as_in_a_recipe) {
  DataConfig config;
  base::Settings settings;
  describe(settings, config);
  settings.read_toml("[data]\nsource = \"text\"\npath = \"p\"\ndigits = 12\nsums = 5\nvalidation = 0.25\n", "r.toml");
  EXPECT_EQ(config.source, SourceKind::text);
  EXPECT_EQ(config.digits, 12);
  EXPECT_EQ(config.validation, 0.25);
  for (const char* wrong :
       {"digits = 0", "digits = 13", "sums = 0", "validation = 0", "validation = 0.6", "source = \"x\""})
    EXPECT_THROW(settings.read_toml(std::string("[data]\n") + wrong, "r.toml"), base::ConfigError) << wrong;
}

}  // namespace
}  // namespace hyperion::data

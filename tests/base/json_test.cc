#include "hyperion/base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/support_child.h"

namespace hyperion::base::test {
namespace {

TEST(JsonText, what_is_not_json_is_corrupt_and_names_the_place) {
  EXPECT_EQ(parse_json(R"({"a":[1,2]})", "x.json")["a"][1], 2);
  for (const char* text :
       {"", "{", "{\"a\":}", "[1,]", "nan", "{} {}", "\"\xff\"", "1e999", "-1e999", "01", "{'a':1}"}) {
    const std::string error = error_of<CorruptError>([&] { parse_json(text, "x.json"); });
    EXPECT_NE(error.find("x.json is not JSON"), std::string::npos) << text << ": " << error;
  }
  EXPECT_NE(error_of([] { parse_json("[1,]", "x.json"); }).find("byte 4"), std::string::npos);
  EXPECT_NE(error_of([] { parse_json(" \n", "x.json"); }).find("it is empty"), std::string::npos);
  EXPECT_NE(error_of([] { parse_json(std::string_view("[1]\0junk", 8), "x.json"); }).find("byte 4"), std::string::npos);
}

TEST(JsonText, deep_nesting_is_no_crash) {
  const std::string deep(200'000, '[');
  EXPECT_THROW(parse_json(deep, "x.json"), CorruptError);
  const auto nested = [](size_t depth) { return std::string(depth, '[') + "\"[\\\"[\"" + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(200), "x.json"));
  EXPECT_NE(error_of<CorruptError>([&] { parse_json(nested(201), "x.json"); }).find("more than 200 deep"),
            std::string::npos);
}

}  // namespace
}  // namespace hyperion::base::test

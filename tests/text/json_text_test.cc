#include "hyperion/text/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "hyperion/base/format.h"
#include "hyperion/text/unicode.h"

namespace hyperion::text {
namespace {

using nlohmann::json;

// Plain, byte by byte: what find_string_break does by words.
const char* plain_break(const char* begin, const char* end) {
  while (begin < end && *begin != '"' && *begin != '\\' && static_cast<unsigned char>(*begin) >= 0x20) ++begin;
  return begin;
}

TEST(JsonText, breaks_of_strings_are_found_wherever_they_stand) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text)
      c = static_cast<char>(random() % 8 == 0 ? random() : "ax!#[]\x7f\x80\xa0\xff\xdc\xa2"[random() % 12]);
    const char *begin = text.data(), *end = begin + text.size();
    ASSERT_EQ(find_string_break(begin, end) - begin, plain_break(begin, end) - begin) << i;
  }
}

// The same tree as nlohmann's, made from our views of the text.
json tree_of(std::string_view value) {
  if (json_is_object(value)) {
    json object = json::object();
    for (const auto& member : json_members(value)) {
      const std::string key = json_string(base::format("\"{}\"", member.key));
      EXPECT_TRUE(json_key_is(member.key, key));
      object[key] = tree_of(member.value);
    }
    return object;
  }
  if (json_is_array(value)) {
    json array = json::array();
    for (const auto element : json_elements(value)) array.push_back(tree_of(element));
    return array;
  }
  if (json_is_text(value)) return json_string(value);
  return json::parse(value);
}

std::string random_string(std::mt19937& random) {
  static const std::vector<std::string> pieces = {
      "a",           "é", "\"", "\\", "\n", "😀", std::string(1, '\0'), "\x1f", "{", "]", "/", "long words of text ",
      "\xe2\x80\xa8"};
  std::string text;
  for (int left = static_cast<int>(random() % 8); left > 0; --left) text += pieces[random() % pieces.size()];
  return text;
}

json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 3 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random()) - (int64_t{1} << 31);
    case 3:
      return static_cast<double>(random()) / 1e3 - 1e5;
    case 4:
      return random_string(random);
    case 5: {
      json array = json::array();
      for (int left = static_cast<int>(random() % 5); left > 0; --left)
        array.push_back(random_value(random, depth + 1));
      return array;
    }
    default: {
      json object = json::object();
      for (int left = static_cast<int>(random() % 5); left > 0; --left)
        object[random_string(random)] = random_value(random, depth + 1);
      return object;
    }
  }
}

json random_object(std::mt19937& random) {
  json object = {{"text", random_string(random)}};
  for (int left = static_cast<int>(random() % 4); left > 0; --left)
    object[random_string(random)] = random_value(random, 0);
  return object;
}

TEST(JsonText, agrees_with_nlohmann_on_good_text) {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    const json value = random_object(random);
    ASSERT_EQ(tree_of(value.dump(i % 3 == 0 ? 2 : -1, ' ', i % 2 == 0)), value) << value;
  }
}

// Both take it, and as the same, or both refuse it. Not compared: numbers beyond a double, which are only looked over
// here, and a byte order mark, which is the framing's.
TEST(JsonText, agrees_with_nlohmann_on_broken_text) {
  std::mt19937 random(3);
  static const std::vector<std::string> words = {
      "\"",   "\\",  "{",       "}",       "[",       "]",    ",",
      ":",    "-",   "0",       "1",       ".",       "e",    "E+",
      "u",    "\\u", "\\ud83d", "\\ude00", "\\u00e9", "true", "nul",
      " ",    "\n",  "\t",      "/",       "\x80",    "\xf0", std::string(1, '\0'),
      "\x7f", "-0",  "01",      "1.",      "\f"};
  int taken = 0, refused = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string text = random_object(random).dump(-1, ' ', i % 2 == 0);
    for (int left = 1 + static_cast<int>(random() % 3); left > 0; --left) {
      const size_t at = random() % (text.size() + 1);
      const std::string& word = words[random() % words.size()];
      const size_t length = std::min<size_t>(random() % 4, text.size() - at);
      if (random() % 3 == 0)
        text.erase(at, length);
      else
        text.replace(at, random() % 2 == 0 ? 0 : length, word);
    }
    json expected;
    bool good = true;
    try {
      expected = json::parse(text);
      good = expected.is_object() && text.find('\0') == std::string::npos;  // nlohmann stops at a NUL
    } catch (const json::parse_error&) {
      good = false;
    } catch (const json::out_of_range&) {
      continue;
    }
    bool ours = valid_prefix(text) == text.size();
    try {
      if (ours) json_members(text);
    } catch (const JsonError& error) {
      ours = false;
      ASSERT_LE(error.at, text.size());
    }
    ASSERT_EQ(ours, good) << "round " << i << ": " << text;
    if (good) {
      const size_t begin = text.find('{');
      ASSERT_EQ(tree_of(std::string_view(text).substr(begin)), expected) << "round " << i << ": " << text;
    }
    ++(good ? taken : refused);
  }
  EXPECT_GT(taken, 20000);
  EXPECT_GT(refused, 50000);
}

TEST(JsonText, kinds_are_told) {
  const auto elements = json_elements(R"([{}, [], "", -1, true, false, null])");
  std::string kinds;
  for (const auto element : elements) kinds += std::string(json_kind(element)) + "; ";
  EXPECT_EQ(kinds, "an object; an array; text; a number; true or false; true or false; null; ");
}

TEST(JsonText, parts_have_an_end) {
  const auto many = [](const std::string& part, int count) {
    std::string text = part;
    while (--count > 0) text += "," + part;
    return text;
  };
  EXPECT_EQ(json_members("{" + many("\"\":0", 65536) + "}").size(), 65536u);
  EXPECT_EQ(json_elements("[" + many("0", 65536) + "]").size(), 65536u);
  EXPECT_THROW(json_members("{" + many("\"\":0", 65537) + "}"), JsonError);
  EXPECT_THROW(json_elements("[" + many("0", 65537) + "]"), JsonError);
  EXPECT_EQ(json_members("{\"a\":[" + many("0", 70000) + "]}").size(), 1u);
}

TEST(JsonText, nesting_has_an_end) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(json_elements(nested(200)));
  EXPECT_THROW(json_elements(nested(201)), JsonError);
  EXPECT_THROW(json_elements(std::string(1000000, '[')), JsonError);
}

}  // namespace
}  // namespace hyperion::text

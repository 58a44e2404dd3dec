#include "hyperion/data/sums.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/data/open_data.h"

namespace hyperion::data {
namespace {

std::string sums_text(const Source& source, int64_t index, size_t tokens) {
  std::vector<int64_t> out(tokens);
  source.read(index, {out, {}, {}});
  return {out.begin(), out.end()};
}

// Reckons a line "758+67: 8+7+0=15 5+6+1=12 7+0+1=08 =825" again, step by step.
void expect_right(const std::string& line, Sum* found = nullptr) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  Sum sum{};
  char colon = 0;
  ASSERT_EQ(std::sscanf(word.c_str(), "%ld+%ld%c", &sum.a, &sum.b, &colon), 3) << line;
  ASSERT_EQ(colon, ':') << line;
  int64_t carry = 0, built = 0, place = 1, a = sum.a, b = sum.b;
  while (words >> word && word[0] != '=') {
    long first = 0, second = 0, third = 0, total = 0;
    ASSERT_EQ(std::sscanf(word.c_str(), "%ld+%ld+%ld=%ld", &first, &second, &third, &total), 4) << line;
    EXPECT_EQ(first, a % 10) << line;
    EXPECT_EQ(second, b % 10) << line;
    EXPECT_EQ(third, carry) << line;
    EXPECT_EQ(total, first + second + third) << line;
    built += total % 10 * place;
    carry = total / 10, place *= 10, a /= 10, b /= 10;
  }
  EXPECT_EQ(a + b, 0) << line;
  EXPECT_EQ(word, "=" + std::to_string(built + carry * place)) << line;
  EXPECT_EQ(word, "=" + std::to_string(sum.a + sum.b)) << line;
  if (found != nullptr) *found = sum;
}

std::pair<int64_t, int64_t> unordered(const Sum& sum) { return std::minmax(sum.a, sum.b); }

TEST(Sums, works_a_sum_as_the_header_shows) {
  const Question question = worked({758, 67});
  EXPECT_EQ(question.prompt, "758+67:");
  EXPECT_EQ(question.answer, " 8+7+0=15 5+6+1=12 7+0+1=08 =825\n");
  EXPECT_EQ(worked({0, 0}).answer, " 0+0+0=00 =0\n");
  EXPECT_EQ(worked({5, 5}).answer, " 5+5+0=10 =10\n");
  EXPECT_EQ(worked({0, 120}).answer, " 0+0+0=00 0+2+0=02 0+1+0=01 =120\n");
}

TEST(Sums, every_line_is_right_whatever_the_digits) {
  for (int64_t digits = 1; digits <= 12; ++digits) {
    int64_t bound = 1;
    for (int64_t i = 0; i < digits; ++i) bound *= 10;
    for (const bool held_out : {false, true})
      for (int64_t index = 0; index < 200; ++index) {
        const Sum sum = draw_sum(11, index, digits, held_out);
        ASSERT_TRUE(sum.a >= 0 && sum.a < bound && sum.b >= 0 && sum.b < bound);
        const Question question = worked(sum);
        expect_right(question.prompt + question.answer);
      }
  }
}

TEST(Sums, short_and_long_numbers_both_come) {
  std::set<size_t> lengths;
  for (int64_t index = 0; index < 500; ++index) lengths.insert(std::to_string(draw_sum(1, index, 5, false).a).size());
  EXPECT_EQ(lengths, (std::set<size_t>{1, 2, 3, 4, 5}));
}

TEST(Sums, training_and_held_out_sums_never_meet) {
  for (const int64_t digits : {1, 2, 3}) {
    std::set<std::pair<int64_t, int64_t>> training;
    for (int64_t index = 0; index < 5000; ++index) training.insert(unordered(draw_sum(1, index, digits, false)));
    for (uint64_t seed = 1; seed < 4; ++seed)
      for (int64_t index = -500; index < 1000; ++index)
        EXPECT_EQ(training.count(unordered(draw_sum(seed, index, digits, true))), 0u);
  }
}

TEST(Sums, samples_and_questions_keep_apart_too) {
  DataConfig config;
  config.digits = 2;
  const Split split = open_data(config, {64, 0}, 5);
  std::set<std::pair<int64_t, int64_t>> training, held_out;
  const auto gather = [](const Source& source, std::set<std::pair<int64_t, int64_t>>& into) {
    for (int64_t index = 0; index < 100; ++index) {
      std::istringstream lines(sums_text(source, index, 400));
      std::string line;
      while (std::getline(lines, line) && !lines.eof()) {  // the last line is cut
        Sum sum{};
        expect_right(line, &sum);
        into.insert(unordered(sum));
      }
    }
  };
  gather(*split.train, training);
  gather(*split.validation, held_out);
  EXPECT_GT(training.size(), 100u);
  for (const auto& pair : held_out) EXPECT_EQ(training.count(pair), 0u);
  EXPECT_EQ(split.questions.size(), 500u);
  for (const auto& question : split.questions) {
    Sum sum{};
    expect_right(question.prompt + question.answer, &sum);
    EXPECT_EQ(training.count(unordered(sum)), 0u);
    EXPECT_EQ(question.answer.back(), '\n');
  }
}

TEST(Sums, the_seed_alone_decides) {
  DataConfig config;
  const Split one = open_data(config, {64, 0}, 5), same = open_data(config, {64, 0}, 5),
              other = open_data(config, {64, 0}, 6);
  for (const int64_t index : {0, 1, 199'999}) {
    EXPECT_EQ(sums_text(*one.train, index, 65), sums_text(*same.train, index, 65));
    EXPECT_NE(sums_text(*one.train, index, 65), sums_text(*other.train, index, 65));
    EXPECT_NE(sums_text(*one.train, index, 65), sums_text(*one.train, index + 1, 65));
  }
  EXPECT_EQ(one.questions[3].prompt, same.questions[3].prompt);
}

TEST(Sums, a_shorter_read_is_the_start_of_a_longer_one) {
  const Split split = open_data({}, {64, 0}, 5);
  const std::string longer = sums_text(*split.train, 7, 300);
  for (const size_t tokens : {0, 1, 64, 299}) EXPECT_EQ(sums_text(*split.train, 7, tokens), longer.substr(0, tokens));
}

TEST(Sums, a_split_has_as_many_samples_as_the_settings_say) {
  DataConfig config;
  config.sums = 1000;
  config.validation = 0.05;
  const Split split = open_data(config, {64, 0}, 1);
  EXPECT_EQ(split.train->samples(), 1000);
  EXPECT_EQ(split.validation->samples(), 50);
  config.sums = 1;
  EXPECT_EQ(open_data(config, {64, 0}, 1).validation->samples(), 1);
}

TEST(Sums, the_last_sample_of_the_largest_set_is_there) {
  DataConfig config;
  config.sums = 1'000'000'000'000;
  const Split split = open_data(config, {64, 0}, 1);
  expect_right(sums_text(*split.train, config.sums - 1, 200)
                   .substr(0, sums_text(*split.train, config.sums - 1, 200).find('\n')));
}

}  // namespace
}  // namespace hyperion::data

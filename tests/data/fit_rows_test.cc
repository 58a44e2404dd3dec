#include "hyperion/data/fit_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/seed.h"

namespace hyperion::data {
namespace {

using Sizes = std::vector<int64_t>;

std::vector<Sizes> rows_of(const FittedRows& fitted) {
  std::vector<Sizes> rows;
  for (int64_t row = 0; row < fitted.count(); ++row) rows.emplace_back(fitted[row].begin(), fitted[row].end());
  return rows;
}

// In the order they come, a new row where the next does not fit.
int64_t rows_in_order(const Sizes& sizes, int64_t room) {
  int64_t rows = 0, left = 0;
  for (const int64_t size : sizes) {
    if (size > left) ++rows, left = room;
    left -= size;
  }
  return rows;
}

Sizes log_normal(std::mt19937& random, int64_t count, double mean, double deviation, int64_t room) {
  const double variance = std::log1p(deviation * deviation / (mean * mean));
  std::lognormal_distribution<double> drawn(std::log(mean) - variance / 2, std::sqrt(variance));
  Sizes sizes(static_cast<size_t>(count));
  for (auto& size : sizes) size = std::clamp<int64_t>(std::llround(drawn(random)), 1, room);
  return sizes;
}

TEST(FitRows, each_document_goes_where_it_leaves_the_least_room) {
  const auto fitted = fit_rows(Sizes{4, 4, 4, 10, 2}, 10);
  EXPECT_EQ(rows_of(fitted), (std::vector<Sizes>{{0, 1, 4}, {2}, {3}}));
  EXPECT_EQ(fitted.emptiest, 1);
  EXPECT_EQ(rows_of(fit_rows(Sizes{3, 6, 2, 7, 2}, 10)), (std::vector<Sizes>{{1, 2, 4}, {0, 3}}));
  EXPECT_EQ(fit_rows({}, 10).count(), 0);
}

TEST(FitRows, every_document_has_one_place_and_no_row_is_overfull) {
  std::mt19937 random(testing::seed());
  for (const int64_t room : {1, 2, 3, 10, 64, 513, 100'000})
    for (const int count : {1, 2, 17, 3000}) {
      Sizes sizes(count);
      for (auto& size : sizes) size = 1 + static_cast<int64_t>(random() % std::min<int64_t>(room, 1 + random() % 600));
      const auto fitted = fit_rows(sizes, room);
      std::vector<int> seen(sizes.size());
      int64_t most = -1, before = -1;
      for (int64_t row = 0; row < fitted.count(); ++row) {
        int64_t used = 0, longest = fitted[row][0];
        for (const int32_t document : fitted[row]) {
          ++seen[document], used += sizes[document];
          if (sizes[document] > sizes[longest]) longest = document;
        }
        EXPECT_TRUE(std::is_sorted(fitted[row].begin(), fitted[row].end()));
        EXPECT_LE(used, room);
        EXPECT_GT(longest, before) << "rows come in the order of their longest documents";
        most = std::max(most, room - used), before = longest;
      }
      EXPECT_EQ(seen, std::vector<int>(sizes.size(), 1));
      const auto emptiest = fitted[fitted.emptiest];
      EXPECT_EQ(room - std::transform_reduce(emptiest.begin(), emptiest.end(), int64_t{0}, std::plus(),
                                             [&](int32_t document) { return sizes[document]; }),
                most);
      EXPECT_LE(fitted.count(), rows_in_order(sizes, room));
      EXPECT_EQ(rows_of(fit_rows(sizes, room)), rows_of(fitted));
    }
}

// In their order such documents fill 90% of rows of 2048, and 81% of rows of 1024.
TEST(FitRows, documents_of_the_lengths_that_people_have_fill_rows) {
  std::mt19937 random(testing::seed());
  for (const int64_t room : {513, 1025, 2049, 4097}) {
    const auto sizes = log_normal(random, 4096, 300, 200, room);
    const auto tokens = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    const auto full = tokens / static_cast<double>(fit_rows(sizes, room).count() * room);
    EXPECT_GT(full, 0.98) << room;
    EXPECT_GT(full, tokens / static_cast<double>(rows_in_order(sizes, room) * room)) << room;
  }
}

// Any first part of the rows is as the whole: their documents are no longer and no shorter.
TEST(FitRows, the_first_rows_are_no_other_than_the_last) {
  std::mt19937 random(testing::seed());
  const auto sizes = log_normal(random, 4096, 300, 200, 2049);
  const auto fitted = fit_rows(sizes, 2049);
  const auto documents_in = [&](int64_t begin, int64_t end) {
    return static_cast<double>(fitted.begins[end] - fitted.begins[begin]) / static_cast<double>(end - begin);
  };
  const int64_t rows = fitted.count();
  EXPECT_NEAR(documents_in(0, rows / 3), documents_in(0, rows), 0.25 * documents_in(0, rows));
  EXPECT_NEAR(documents_in(rows - rows / 3, rows), documents_in(0, rows), 0.25 * documents_in(0, rows));
}

TEST(FitRows, a_window_has_thousands_of_documents_and_many_rows) {
  EXPECT_FALSE(fill_window(4095, 1'000'000'000, 100));
  EXPECT_FALSE(fill_window(4096, 6399, 100));
  EXPECT_TRUE(fill_window(4096, 6400, 100));
}

}  // namespace
}  // namespace hyperion::data

#include "hyperion/trace/string_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

namespace hyperion::trace {
namespace {

TEST(StringPool, keeps_each_text_once_and_finds_it_again) {
  StringPool pool;
  std::map<std::string, uint32_t> numbers;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 20000; ++i) {
      const auto text = std::string(static_cast<size_t>(i % 70), 'x') + std::to_string(i);
      const auto id = pool.add(text);
      EXPECT_EQ(numbers.try_emplace(text, id).first->second, id);
      EXPECT_EQ(pool[id], text);
      EXPECT_EQ(pool.find(text), id);
    }
  EXPECT_EQ(pool.size(), 20000U);
  EXPECT_EQ(pool[pool.add("")], "");
  EXPECT_EQ(pool.find("none"), kNoString);
  EXPECT_EQ(pool[kNoString], "");
  const auto long_text = std::string(1 << 20, 'l');
  EXPECT_EQ(pool[pool.add(long_text)], long_text);
  const StringPool moved = std::move(pool);
  EXPECT_EQ(moved[0], "0");
}

TEST(StringPool, threads_get_the_same_number_for_a_text) {
  StringPool pool;
  std::vector<std::vector<uint32_t>> numbers(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : numbers)
      threads.emplace_back([&pool, &mine] {
        PoolCache cache;
        for (int i = 0; i < 200000; ++i) {
          const auto text = std::to_string(i % 70000);
          auto id = cache.find(text);
          if (id == kNoString) cache.remember(text, id = pool.add(text));
          mine.push_back(id);
        }
      });
  }
  EXPECT_EQ(pool.size(), 70000U);
  for (const auto& mine : numbers)
    for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(pool[mine[i]], std::to_string(i % 70000));
}

}  // namespace
}  // namespace hyperion::trace

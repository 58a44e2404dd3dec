#include "hyperion/device/tuning_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "hyperion/base/faulty_files.h"
#include "tests/base/support_child.h"

namespace hyperion::device {
namespace {

using base::real_files;
using base::test::TestFolder;

ChoiceFor product(int rows) { return {"GPU 1", "library 7", "product " + std::to_string(rows)}; }

class ChoicesFile : public ::testing::Test {
 protected:
  base::Path file() const { return folder_ / "made/by/it.jsonl"; }
  TestFolder folder_;
};

TEST_F(ChoicesFile, what_is_kept_is_found_by_the_next_process) {
  Choices(file()).keep(product(1), {"0123abcd", 12.5, 14.25});
  Choices next(file());
  const auto found = next.find(product(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->way, "0123abcd");
  EXPECT_EQ(found->microseconds, 12.5);
  EXPECT_EQ(found->usual, 14.25);
  EXPECT_FALSE(next.met().at(product(1)).measured);
}

TEST_F(ChoicesFile, another_gpu_library_or_shape_is_another_choice) {
  Choices choices(file());
  choices.keep(product(1), {"a", 1, 1});
  auto other = product(1);
  other.gpu = "GPU 2";
  EXPECT_FALSE(choices.find(other));
  other = product(1), other.library = "library 8";
  EXPECT_FALSE(choices.find(other));
  EXPECT_FALSE(choices.find(product(2)));
  EXPECT_EQ(choices.met().size(), 1u);
}

TEST_F(ChoicesFile, a_damaged_line_is_passed_over_and_the_others_stay) {
  Choices first(file());
  for (int i = 0; i < 3; ++i) first.keep(product(i), {"way" + std::to_string(i), 1, 2});
  const std::string whole = real_files().read(file());
  const size_t second = whole.find('\n') + 1;
  for (size_t i = second; i + 1 < whole.find('\n', second); i += 7) {
    std::string broken = whole;
    broken[i] ^= 1;
    base::write_atomically(real_files(), file(), broken);
    Choices choices(file());
    EXPECT_TRUE(choices.find(product(0)) && choices.find(product(2))) << i;
    const auto found = choices.find(product(1));
    EXPECT_TRUE(!found || found->way == "way1") << i;
  }
}

TEST_F(ChoicesFile, files_that_are_no_list_of_choices_are_passed_over_and_replaced) {
  real_files().create_folders(file().parent_path());
  for (const std::string text : {"", "\n\n", "not JSON", "[]", "{}", "{\"way\": 3}", "\xff\xfe", "null\n7\n"}) {
    base::write_atomically(real_files(), file(), text);
    Choices choices(file());
    EXPECT_TRUE(choices.all().empty()) << text;
    choices.keep(product(5), {"way", 1, 1});
    EXPECT_EQ(Choices(file()).all().size(), 1u) << text;
  }
}

TEST_F(ChoicesFile, several_writers_lose_nothing) {
  constexpr int kWriters = 4, kEach = 10;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w)
    writers.emplace_back([&, w] {
      Choices mine(file());  // as another process would
      for (int i = 0; i < kEach; ++i) mine.keep(product(w * kEach + i), {"way", 1, 1});
    });
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(Choices(file()).all().size(), size_t{kWriters * kEach});
}

TEST_F(ChoicesFile, a_disk_that_fails_costs_the_file_and_not_the_run) {
  base::FaultyFileSystem files;
  Choices choices(file(), files);
  choices.keep(product(1), {"old", 1, 1});
  for (int64_t n = 1; n < 8; ++n) {
    files.fail_operation(n);
    EXPECT_NO_THROW(choices.keep(product(1), {"new", 1, 1}));
    EXPECT_EQ(choices.find(product(1))->way, "new");
    EXPECT_EQ(Choices(file()).all().size(), 1u) << n;  // the old or the new, whole
  }
}

TEST_F(ChoicesFile, cleared_is_gone_for_good) {
  Choices choices(file());
  choices.keep(product(1), {"way", 1, 1});
  choices.clear();
  EXPECT_FALSE(choices.find(product(1)));
  EXPECT_TRUE(Choices(file()).all().empty());
}

}  // namespace
}  // namespace hyperion::device

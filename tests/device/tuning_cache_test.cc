#include "hyperion/device/tuning_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "hyperion/base/faulty_files.h"
#include "tests/base/support_child.h"

namespace hyperion::device {
namespace {

using base::real_files;
using base::test::TestFolder;

TuningKey product(int rows) { return {"GPU 1", "library 7", "product " + std::to_string(rows)}; }

class TuningFile : public ::testing::Test {
 protected:
  base::Path file() const { return folder_ / "made/by/it.jsonl"; }
  TestFolder folder_;
};

TEST_F(TuningFile, what_is_kept_is_found_by_the_next_process) {
  TuningCache(file()).keep(product(1), {"0123abcd", 12.5, 14.25});
  TuningCache next(file());
  const auto found = next.find(product(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->way, "0123abcd");
  EXPECT_EQ(found->microseconds, 12.5);
  EXPECT_EQ(found->usual, 14.25);
  EXPECT_FALSE(next.met().at(product(1)).measured);
}

TEST_F(TuningFile, another_gpu_library_or_shape_is_another_choice) {
  TuningCache tunings(file());
  tunings.keep(product(1), {"a", 1, 1});
  auto other = product(1);
  other.gpu = "GPU 2";
  EXPECT_FALSE(tunings.find(other));
  other = product(1), other.library = "library 8";
  EXPECT_FALSE(tunings.find(other));
  EXPECT_FALSE(tunings.find(product(2)));
  EXPECT_EQ(tunings.met().size(), 1u);
}

TEST_F(TuningFile, a_damaged_line_is_passed_over_and_the_others_stay) {
  TuningCache first(file());
  for (int i = 0; i < 3; ++i) first.keep(product(i), {"way" + std::to_string(i), 1, 2});
  const std::string whole = real_files().read(file());
  const size_t second = whole.find('\n') + 1;
  for (size_t i = second; i + 1 < whole.find('\n', second); i += 7) {
    std::string broken = whole;
    broken[i] ^= 1;
    base::write_atomically(real_files(), file(), broken);
    TuningCache tunings(file());
    EXPECT_TRUE(tunings.find(product(0)) && tunings.find(product(2))) << i;
    const auto found = tunings.find(product(1));
    EXPECT_TRUE(!found || found->way == "way1") << i;
  }
}

TEST_F(TuningFile, files_that_are_no_list_of_choices_are_passed_over_and_replaced) {
  real_files().create_folders(file().parent_path());
  for (const std::string text : {"", "\n\n", "not JSON", "[]", "{}", "{\"way\": 3}", "\xff\xfe", "null\n7\n"}) {
    base::write_atomically(real_files(), file(), text);
    TuningCache tunings(file());
    EXPECT_TRUE(tunings.all().empty()) << text;
    tunings.keep(product(5), {"way", 1, 1});
    EXPECT_EQ(TuningCache(file()).all().size(), 1u) << text;
  }
}

TEST_F(TuningFile, several_writers_lose_nothing) {
  constexpr int kWriters = 4, kEach = 10;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w)
    writers.emplace_back([&, w] {
      TuningCache mine(file());  // as another process would
      for (int i = 0; i < kEach; ++i) mine.keep(product(w * kEach + i), {"way", 1, 1});
    });
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(TuningCache(file()).all().size(), size_t{kWriters * kEach});
}

TEST_F(TuningFile, a_disk_that_fails_costs_the_file_and_not_the_run) {
  base::FaultyFileSystem files;
  TuningCache tunings(file(), files);
  tunings.keep(product(1), {"old", 1, 1});
  for (int64_t n = 1; n < 8; ++n) {
    files.fail_operation(n);
    EXPECT_NO_THROW(tunings.keep(product(1), {"new", 1, 1}));
    EXPECT_EQ(tunings.find(product(1))->way, "new");
    EXPECT_EQ(TuningCache(file()).all().size(), 1u) << n;  // the old or the new, whole
  }
}

TEST_F(TuningFile, cleared_is_gone_for_good) {
  TuningCache tunings(file());
  tunings.keep(product(1), {"way", 1, 1});
  tunings.clear();
  EXPECT_FALSE(tunings.find(product(1)));
  EXPECT_TRUE(TuningCache(file()).all().empty());
}

}  // namespace
}  // namespace hyperion::device

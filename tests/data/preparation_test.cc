// A set that is half prepared, and what becomes of damage to it.
#include "hyperion/data/preparation.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hyperion/data/prepare.h"
#include "tests/base/support_child.h"

namespace hyperion::data {
namespace {

class HalfPrepared : public ::testing::TestWithParam<SetFormat> {
 protected:
  struct Stop {};

  HalfPrepared() {
    std::string lines;
    for (int i = 0; i < 40'000; ++i) lines += "line " + std::to_string(i) + " of a text that takes several batches\n";
    write(folder_ / "lines.txt", lines);
    std::string records;
    for (int i = 0; i < 6; ++i) records += std::string(1, '\3') + std::string(3072, static_cast<char>(i));
    for (const char* name : {"1", "2", "3", "4", "5"})
      write(folder_ / "cifar" / (std::string("data_batch_") + name + ".bin"), records);
    write(folder_ / "cifar" / "test_batch.bin", records);
  }
  static void write(const base::Path& path, const std::string& content) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  PrepareConfig config(const std::string& output) const {
    PrepareConfig config;
    config.format = GetParam(), config.validation = 0.1, config.safe_seconds = 0;
    config.files = {(folder_ / (config.format == SetFormat::cifar ? "cifar" : "lines.txt")).string()};
    config.output = (folder_ / output).string();
    return config;
  }
  // In the middle, as if it was killed there.
  void stop(const std::string& output) const {
    int batches = 0;
    const auto progress = [&](const PrepareProgress& now) {
      if (std::string_view(now.doing) != "reading the inputs" && ++batches == 4) throw Stop();
    };
    EXPECT_THROW(prepare(base::real_files(), config(output), progress), Stop);
    ASSERT_TRUE(base::real_files().exists(partial(output) / "journal.json"));
  }
  base::Path partial(const std::string& output) const { return folder_ / (output + ".partial"); }
  void flip(const base::Path& path, size_t place) const {
    std::string content = base::real_files().read(path);
    ASSERT_LT(place, content.size()) << path;
    content[place] ^= 1;
    write(path, content);
  }
  struct Done {
    PrepareSummary summary;
    std::string said;
  };
  Done go_on(const std::string& output) const {
    ::testing::internal::CaptureStderr();
    Done done{prepare(base::real_files(), config(output), {}), {}};
    done.said = ::testing::internal::GetCapturedStderr();
    for (const char* name : {"train.set", "validation.set"})
      EXPECT_TRUE(base::real_files().read(folder_ / output / name) == base::real_files().read(folder_ / "whole" / name))
          << name;
    return done;
  }

  base::test::TestFolder folder_;
};

TEST_P(HalfPrepared, goes_on_where_nothing_is_damaged_and_begins_anew_aloud_where_something_is) {
  prepare(base::real_files(), config("whole"), {});
  stop("good");
  const auto good = go_on("good");
  EXPECT_TRUE(good.summary.resumed);
  EXPECT_EQ(good.said, "");
  for (const auto& [part, place] : {std::pair("train.set.payload", 70), {"train.set.index", 10}}) {
    SCOPED_TRACE(part);
    stop("bad");
    flip(partial("bad") / part, place);
    const auto done = go_on("bad");
    EXPECT_FALSE(done.summary.resumed);
    EXPECT_NE(done.said.find(std::string(part) + " is damaged: it does not have the hash of what was safe in it; "
                                                 "beginning anew"),
              std::string::npos)
        << done.said;
    std::filesystem::remove_all(folder_ / "bad");
  }
}

TEST_P(HalfPrepared, a_journal_in_which_a_digit_changed_is_not_believed) {
  prepare(base::real_files(), config("whole"), {});
  stop("bad");
  const base::Path journal = partial("bad") / "journal.json";
  const std::string content = base::real_files().read(journal);
  flip(journal, content.find("\"taken\":") + 8);
  const auto done = go_on("bad");
  EXPECT_FALSE(done.summary.resumed);
  EXPECT_NE(done.said.find("journal.json is damaged: it does not have its hash; beginning anew"), std::string::npos)
      << done.said;
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfPrepared, ::testing::Values(SetFormat::lines, SetFormat::cifar));

}  // namespace
}  // namespace hyperion::data

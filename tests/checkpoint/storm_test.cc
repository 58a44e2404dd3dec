// Saves that are killed, torn, and refused by the disk at random points, and bytes that are turned at random: a
// complete checkpoint always loads, and no turned byte passes. HYPERION_CHECKPOINT_POINTS and HYPERION_CHECKPOINT_FLIPS
// say how many (script/test-checkpoints); HYPERION_TEST_SEED which.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/checkpoint/damage.h"
#include "hyperion/checkpoint/saver.h"
#include "hyperion/checkpoint/step_folder.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::FaultyFileSystem;
using base::format;
using base::real_files;

int64_t count_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

class Storm : public testing::Test {
 protected:
  Storm() { base::configure_log({base::LogLevel::error, 0}); }
  ~Storm() override { base::configure_log({}); }

  int64_t below(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random_); }

  // The newest that is good in all its bytes.
  OpenedCheckpoint newest() const {
    return open_newest(real_files(), folder_, [](const OpenedCheckpoint& one) { one.verify(); });
  }

  std::mt19937 random_{static_cast<uint32_t>(count_of("HYPERION_TEST_SEED", 1))};
  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "checkpoints";
};

enum class Blow { kill, tear, full, fail };
constexpr const char* kBlows[] = {"killed", "torn", "disk full", "input/output error"};

// Deals one blow at a random point of a save of `step`; whether the save was told to be complete.
bool save_through(FaultyFileSystem& files, const base::Path& folder, int64_t step, bool background) {
  Saver saver(files, folder, {.retention = 2, .background = background, .first_pause = 1e-6});
  saver.save(make_snapshot(step));
  return saver.wait()->complete();
}

TEST_F(Storm, a_complete_checkpoint_loads_whatever_point_of_a_save_is_hit) {
  const int64_t points = count_of("HYPERION_CHECKPOINT_POINTS", 60);
  int64_t last = 1, operations = 0, bytes = 0;
  {
    FaultyFileSystem counting;
    ASSERT_TRUE(save_through(counting, folder_, last, false));
    operations = counting.operations();
    bytes = static_cast<int64_t>(list_checkpoints(real_files(), folder_)[0].bytes);
  }
  std::map<std::string, int64_t> dealt, completed;
  for (int64_t point = 0; point < points; ++point) {
    const auto blow = static_cast<Blow>(below(4));
    const bool background = below(2) == 1, replaces = below(5) == 0;
    const int64_t step = replaces ? last : last + 1;
    FaultyFileSystem files;
    const int64_t at = 1 + below(operations + 4);  // a save of several removes older ones too
    if (blow == Blow::kill) files.kill_at_operation(at);
    if (blow == Blow::tear) files.tear_append(1 + below(10));
    if (blow == Blow::full) files.set_capacity(below(bytes));
    if (blow == Blow::fail) files.fail_operation(at);
    bool complete = false;
    if (blow == Blow::kill || blow == Blow::tear) {  // what is torn ends as a crash does: nothing is cleared up
      const pid_t child = ::fork();
      if (child == 0) ::_exit(save_through(files, folder_, step, background) ? 0 : 1);
      int status = 0;
      ::waitpid(child, &status, 0);
      complete = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    } else {
      complete = save_through(files, folder_, step, background);
      for (const auto& path : real_files().list(folder_))
        ASSERT_EQ(path.filename().string().find("partial"), std::string::npos) << "cleared up: " << path;
    }
    const auto name = kBlows[static_cast<int>(blow)];
    ++dealt[name], completed[name] += complete ? 1 : 0;
    const auto found = newest();
    ASSERT_TRUE(found.step == step || (!complete && found.step == last))
        << "point " << point << ", " << name << ": step " << found.step;
    ASSERT_TRUE(is_snapshot(found, found.step)) << "point " << point << ", " << name;
    last = found.step;
  }
  for (const auto& [name, count] : dealt)
    std::printf("%-20s %5lld points; a complete checkpoint loaded after each; %lld saves got through\n", name.c_str(),
                static_cast<long long>(count), static_cast<long long>(completed[name]));
}

TEST_F(Storm, no_byte_is_turned_unseen) {
  const int64_t flips = count_of("HYPERION_CHECKPOINT_FLIPS", 300);
  for (const int64_t step : {1, 2}) {
    Snapshot snapshot = make_snapshot(step);
    save_checkpoint(real_files(), folder_, snapshot, 2);
  }
  const base::Path newest_folder = folder_ / "step-2";
  const auto files = real_files().list(newest_folder);
  std::map<std::string, int64_t> turned;
  for (int64_t flip = 0; flip < flips; ++flip) {
    const auto& path = files[static_cast<size_t>(below(std::ssize(files)))];
    const auto at = below(static_cast<int64_t>(real_files().size(path)));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char before = static_cast<char>(file.get());
    const auto write = [&](char byte) {
      file.seekp(at);
      file.put(byte);
      file.flush();
    };
    write(static_cast<char>(before ^ static_cast<char>(1 + below(255))));
    ++turned[path.filename().string()];
    ASSERT_FALSE(verify_checkpoint(real_files(), newest_folder).damage.empty()) << path << " byte " << at;
    const auto found = newest();
    ASSERT_EQ(found.step, 1) << path << " byte " << at;
    ASSERT_TRUE(is_snapshot(found, 1));
    write(before);
  }
  ASSERT_TRUE(is_snapshot(newest(), 2)) << "all were turned back";
  for (const auto& [name, count] : turned)
    std::printf("%-24s %6lld bytes turned, each found, each time the step before was taken\n", name.c_str(),
                static_cast<long long>(count));
}

}  // namespace
}  // namespace hyperion::checkpoint::test

#include "hyperion/base/fault.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "hyperion/base/files.h"
#include "hyperion/base/signals.h"
#include "tests/base/support_child.h"

namespace hyperion::base::test {
namespace {

class FaultTest : public testing::Test {
 protected:
  ~FaultTest() override { set_faults(""); }
};

TEST_F(FaultTest, is_quiet_unless_switched_on) {
  set_faults("");
  EXPECT_EQ(fault_point("a"), Fault::none);
  set_faults("b=throw");
  EXPECT_EQ(fault_point("a"), Fault::none);
}

TEST_F(FaultTest, strikes_once_at_the_nth_passing) {
  set_faults("a=enospc@3,b=tear,c=flip");
  EXPECT_EQ(fault_point("c"), Fault::flip);
  EXPECT_EQ(fault_point("a"), Fault::none);
  EXPECT_EQ(fault_point("b"), Fault::tear);
  EXPECT_EQ(fault_point("a"), Fault::none);
  EXPECT_EQ(fault_point("a"), Fault::disk_full);
  EXPECT_EQ(fault_point("a"), Fault::none);
  EXPECT_EQ(fault_point("b"), Fault::none);
}

TEST_F(FaultTest, strikes_again_at_every_mth_passing_after_the_nth) {
  set_faults("a=drop@2/3");
  std::string seen;
  for (int i = 0; i < 9; ++i) seen += fault_point("a") == Fault::drop ? 'x' : '.';
  EXPECT_EQ(seen, ".x..x..x.");
}

TEST_F(FaultTest, throws_an_error_that_names_the_point) {
  set_faults("save.begin=throw");
  EXPECT_NE(error_of([] { fault_point("save.begin"); }).find("save.begin"), std::string::npos);
  EXPECT_EQ(fault_point("save.begin"), Fault::none);
}

TEST_F(FaultTest, a_spec_that_cannot_be_read_is_refused) {
  for (const char* specs : {"a", "a=", "a=burn", "=kill", "a=kill@", "a=kill@0", "a=kill@-1", "a=kill@x", "a=kill@2x",
                            "a@2=kill", ",a=kill", "a=kill,,b=kill", "a=kill@99999999999999999999", "a=kill@1.5",
                            "a=kill@1/", "a=kill@1/0", "a=kill@/2", "a=kill b=kill"}) {
    const std::string text = error_of<ConfigError>([&] { set_faults(specs); });
    EXPECT_NE(text.find("cannot be read"), std::string::npos) << specs;
    EXPECT_NE(text.find("hint: write name=kill"), std::string::npos) << specs;
  }
}

TEST_F(FaultTest, a_refused_spec_leaves_the_old_ones) {
  set_faults("a=tear");
  EXPECT_THROW(set_faults("b=tear,c"), ConfigError);
  EXPECT_EQ(fault_point("b"), Fault::none);
  EXPECT_EQ(fault_point("a"), Fault::tear);
}

TEST_F(FaultTest, kill_ends_the_process_at_once) {
  const int code = exit_code_of_child([] {
    set_faults("a=kill@2");
    fault_point("a");
    fault_point("a");
    return 0;
  });
  EXPECT_EQ(code, 128 + SIGKILL);
}

TEST_F(FaultTest, interrupt_looks_like_a_stop_request) {
  const int code = exit_code_of_child([] {
    watch_stop_signals();
    set_faults("a=interrupt");
    fault_point("a");
    return stop_signal();
  });
  EXPECT_EQ(code, SIGINT);
}

TEST_F(FaultTest, sleep_goes_on_afterwards) {
  set_faults("a=sleep");
  fault_point("a");
  EXPECT_EQ(fault_point("a"), Fault::none);
}

TEST_F(FaultTest, a_write_finds_the_disk_full) {
  TestFolder folder;
  set_faults("files.write=enospc@2");
  write_atomically(real_files(), folder / "f", "old");
  try {
    write_atomically(real_files(), folder / "f", "new");
    ADD_FAILURE() << "written";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ENOSPC);
    EXPECT_NE(error.hint().find("free some space"), std::string::npos);
  }
  EXPECT_EQ(real_files().read(folder / "f"), "old");
  EXPECT_EQ(real_files().list(folder.path()).size(), 1u);
}

TEST_F(FaultTest, a_torn_write_leaves_half_and_a_dead_process) {
  TestFolder folder;
  const int code = exit_code_of_child([&] {
    set_faults("files.write=tear");
    real_files().create(folder / "f")->append("12345678");
    return 0;
  });
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_EQ(real_files().read(folder / "f"), "1234");
}

// The registry reads the variable once a process, so these use the program's first passing: a fresh one by exec.
TEST_F(FaultTest, the_variable_is_read_at_the_first_passing) {
  const char* probe = std::getenv("HYPERION_FAULT_PROBE");
  if (probe != nullptr) {
    EXPECT_EQ(fault_point("probe"), Fault::disk_full);
    return;
  }
  const int code = exit_code_of_child([] {
    ::setenv("HYPERION_FAULT_PROBE", "1", 1);
    ::setenv("HYPERION_FAULTS", "probe=enospc", 1);
    ::execl("/proc/self/exe", "base_tests", "--gtest_filter=FaultTest.the_variable_is_read_at_the_first_passing",
            static_cast<char*>(nullptr));
    return 98;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace hyperion::base::test

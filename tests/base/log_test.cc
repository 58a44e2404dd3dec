#include "hyperion/base/log.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <cstdlib>
#include <sstream>
#include <thread>

#include "hyperion/base/fault.h"
#include "hyperion/base/json.h"
#include "tests/base/support_child.h"

#include <nlohmann/json.hpp>

namespace hyperion::base::test {
namespace {

class LogTest : public testing::Test {
 protected:
  ~LogTest() override {
    log_to_file({});
    configure_log({});
    set_faults("");
    current_activity() = {};
  }
  std::vector<Json> records() {
    std::istringstream lines(real_files().read(folder_ / "log"));
    std::vector<Json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(parse_json(line, line));
    return all;
  }
  TestFolder folder_;
};

TEST_F(LogTest, people_see_their_level_and_the_file_takes_everything) {
  log_to_file(folder_ / "log");
  configure_log({LogLevel::warn, 2});
  testing::internal::CaptureStderr();
  log_debug("one");
  log_info("two");
  log_warn("three");
  log(LogLevel::error, "four");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[rank 2] warn: three\n[rank 2] error: four\n");
  const auto all = records();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["level"], "debug");
  EXPECT_EQ(all[1]["level"], "info");
  EXPECT_EQ(all[3]["level"], "error");
  EXPECT_EQ(all[1]["message"], "two");
  EXPECT_EQ(all[1]["rank"], 2);
  EXPECT_EQ(all[1]["time"].get<std::string>().size(), 20u);
}

TEST_F(LogTest, the_step_is_written_where_there_is_one) {
  log_to_file(folder_ / "log");
  log_debug("before");
  current_activity().step = 0;
  log_debug("in");
  const auto all = records();
  EXPECT_FALSE(all[0].contains("step"));
  EXPECT_EQ(all[1]["step"], 0);
}

TEST_F(LogTest, any_message_stays_one_line_of_json) {
  log_to_file(folder_ / "log");
  const std::string messages[] = {
      "", "two\nlines", "\"quotes\" \\", "\x01\x7f", "bad \xff utf-8", "é", std::string(100'000, 'x')};
  for (const auto& message : messages) log_debug(message);
  const auto all = records();
  ASSERT_EQ(all.size(), std::size(messages));
  EXPECT_EQ(all[1]["message"], "two\nlines");
  EXPECT_EQ(all[6]["message"], messages[6]);
}

TEST_F(LogTest, threads_write_whole_lines) {
  log_to_file(folder_ / "log");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      current_activity().step = thread;
      for (int i = 0; i < 100; ++i) log_debug("message " + std::to_string(i));
    });
  for (auto& thread : threads) thread.join();
  int next[4] = {};
  for (const auto& record : records())
    EXPECT_EQ(record["message"], "message " + std::to_string(next[record["step"].get<int>()]++));
  for (const int count : next) EXPECT_EQ(count, 100);
}

TEST_F(LogTest, a_full_disk_ends_the_file_and_not_the_program) {
  log_to_file(folder_ / "log");
  set_faults("files.write=enospc");
  testing::internal::CaptureStderr();
  log_info("one");
  log_info("two");
  const std::string seen = testing::internal::GetCapturedStderr();
  EXPECT_NE(seen.find("warn: the log file is given up"), std::string::npos) << seen;
  EXPECT_NE(seen.find("two\n"), std::string::npos);
  EXPECT_EQ(real_files().read(folder_ / "log"), "");
}

TEST_F(LogTest, a_later_file_is_appended_to) {
  log_to_file(folder_ / "log");
  log_debug("one");
  log_to_file({});
  log_debug("lost");
  log_to_file(folder_ / "log");
  log_debug("two");
  ASSERT_EQ(records().size(), 2u);
  EXPECT_THROW(log_to_file(folder_ / "no" / "log"), FileError);
  log_debug("three");
  EXPECT_EQ(records().size(), 3u);
}

TEST_F(LogTest, no_terminal_means_no_colour_and_no_progress_line) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(is_terminal(ends[1]));
  EXPECT_FALSE(use_color(ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_FALSE(use_color(-1));
  testing::internal::CaptureStderr();
  {
    ProgressLine line;
    if (!line.live()) {
      line.show("half way");
      line.clear();
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// What a terminal of ten columns as stderr receives from `body`, run in a child.
template <class Body>
std::string seen_on_terminal(Body body) {
  int terminal = -1, program = -1;
  const winsize window{5, 10, 0, 0};
  EXPECT_EQ(::openpty(&terminal, &program, nullptr, nullptr, &window), 0);
  EXPECT_EQ(exit_code_of_child([&] {
              ::dup2(program, STDERR_FILENO);
              ::unsetenv("NO_COLOR");
              ::setenv("TERM", "xterm", 1);
              body();
              return 0;
            }),
            0);
  ::close(program);  // the last end on that side: reading ends in an error once everything was read
  std::string seen;
  char part[4096];  // the kernel passes on what was written piece by piece, and a read may come between two
  for (ssize_t count; (count = ::read(terminal, part, sizeof part)) > 0;) seen.append(part, count);
  ::close(terminal);
  return seen;
}

TEST_F(LogTest, log_lines_pass_above_the_progress_line) {
  const std::string seen = seen_on_terminal([] {
    ProgressLine line;
    line.show("half way");
    log_warn("hot");
    line.show("done");
  });
  EXPECT_EQ(seen, "\r\033[Khalf way\r\033[K\033[33mwarn: hot\033[0m\r\nhalf way\r\033[Kdone\r\n");
}

TEST_F(LogTest, printed_lines_stay_above_the_progress_line_and_out_of_the_file) {
  const std::string seen = seen_on_terminal([] {
    ProgressLine line;
    line.show("half way");
    print_lines("step 1");
    line.clear();
    print_lines("a\nb\n");
  });
  EXPECT_EQ(seen, "\r\033[Khalf way\r\033[Kstep 1\r\nhalf way\r\033[Ka\r\nb\r\n");
  log_to_file(folder_ / "log");
  testing::internal::CaptureStderr();
  print_lines("step 2");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 2\n");
  EXPECT_TRUE(records().empty());
}

TEST_F(LogTest, the_progress_line_is_cut_to_the_width_between_characters) {
  EXPECT_EQ(seen_on_terminal([] { ProgressLine().show("0123456789ab"); }), "\r\033[K012345678\r\n");
  EXPECT_EQ(seen_on_terminal([] { ProgressLine().show("01234567éé"); }), "\r\033[K01234567é\r\n");
}

TEST_F(LogTest, color_follows_no_color_and_term) {
  const auto colored = [](const char* variable, const char* value) {
    return seen_on_terminal([&] {
             ::setenv(variable, value, 1);
             log_warn("hot");
           }).find("\033[33m") != std::string::npos;
  };
  EXPECT_TRUE(colored("TERM", "xterm"));
  EXPECT_FALSE(colored("TERM", "dumb"));
  EXPECT_FALSE(colored("NO_COLOR", "1"));
  EXPECT_TRUE(colored("NO_COLOR", ""));  // no-color.org: set and not empty
}

}  // namespace
}  // namespace hyperion::base::test

#include "hyperion/base/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/base/support_child.h"

namespace hyperion::base::test {
namespace {

// Raises the signals in a child that watches for them; it leaves with the exit code of what it noted.
int code_after(std::initializer_list<int> signals) {
  return exit_code_of_child([&] {
    watch_stop_signals();
    for (const int signal : signals) ::raise(signal);
    return stop_signal() == 0 ? 0 : stop_exit_code(stop_signal());
  });
}

TEST(Signals, nothing_is_noted_while_nobody_asks) { EXPECT_EQ(code_after({}), 0); }

TEST(Signals, the_first_is_noted_and_the_program_goes_on) {
  EXPECT_EQ(code_after({SIGINT}), 130);
  EXPECT_EQ(code_after({SIGTERM}), 75);
  EXPECT_EQ(code_after({SIGUSR1}), 75);
  EXPECT_EQ(code_after({SIGHUP}), 75);
}

TEST(Signals, a_hangup_that_is_ignored_at_the_start_stays_so) {
  const int code = exit_code_of_child([] {
    ::signal(SIGHUP, SIG_IGN);
    watch_stop_signals();
    ::raise(SIGHUP);
    return stop_signal();
  });
  EXPECT_EQ(code, 0);
}

TEST(Signals, a_second_request_to_end_stops_at_once_unless_it_is_the_first_sent_twice) {
  const auto code = [](int first, int second, std::chrono::milliseconds pause) {
    return exit_code_of_child([&] {
      watch_stop_signals();
      ::raise(first);
      std::this_thread::sleep_for(pause);
      ::raise(second);
      return 2;
    });
  };
  constexpr std::chrono::milliseconds kLater{600};
  EXPECT_EQ(code(SIGTERM, SIGTERM, kLater), 128 + SIGTERM);
  EXPECT_EQ(code(SIGHUP, SIGTERM, kLater), 128 + SIGTERM);
  EXPECT_EQ(code(SIGUSR1, SIGTERM, kLater), 2) << "a warning and the request itself are two things";
  EXPECT_EQ(code(SIGTERM, SIGTERM, {}), 2);
}

TEST(Signals, a_second_interrupt_stops_at_once) {
  const int code = exit_code_of_child([] {
    watch_stop_signals();
    ::raise(SIGINT);
    if (stop_signal() != SIGINT) return 1;
    ::raise(SIGINT);
    return 2;
  });
  EXPECT_EQ(code, 130);
}

TEST(Signals, a_second_interrupt_stops_at_once_whatever_came_between) {
  for (const auto signals : {std::initializer_list<int>{SIGINT, SIGTERM, SIGINT}, {SIGTERM, SIGINT, SIGINT}}) {
    const int code = exit_code_of_child([&] {
      watch_stop_signals();
      for (const int signal : signals) ::raise(signal);
      return 2;
    });
    EXPECT_EQ(code, 130);
  }
}

TEST(Signals, the_first_request_decides_the_exit_code) {
  EXPECT_EQ(code_after({SIGINT, SIGTERM}), 130);
  EXPECT_EQ(code_after({SIGTERM, SIGINT}), 75);
  EXPECT_EQ(code_after({SIGTERM, SIGTERM}), 75);
}

TEST(Signals, a_closed_pipe_is_an_error_and_no_death) { EXPECT_EQ(code_after({SIGPIPE}), 0); }

TEST(Signals, work_with_nothing_to_save_leaves_by_an_exception) {
  const auto code = [](int signal) {
    return exit_code_of_child([&] {
      watch_stop_signals();
      throw_if_stopped("evaluating");
      ::raise(signal);
      try {
        throw_if_stopped("evaluating");
      } catch (const Interrupted& error) {
        return std::string(error.what()).find("evaluating") != std::string::npos ? error.exit_code() : 1;
      }
      return 0;
    });
  };
  EXPECT_EQ(code(SIGINT), 128 + SIGINT);
  EXPECT_EQ(code(SIGTERM), 128 + SIGTERM);
}

}  // namespace
}  // namespace hyperion::base::test

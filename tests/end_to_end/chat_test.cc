// A dialogue on a terminal, as a person has it: the program on one end of a pseudo-terminal, the test on the other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <chrono>
#include <thread>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::Scratch;
using Words = std::vector<std::string>;

class OnTerminal {
 public:
  OnTerminal(const Scratch& scratch, const Words& words) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::openpty(&master_, &slave_, nullptr, nullptr, &size) != 0) return;
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(master_);
    ::login_tty(slave_);
    ::setenv("TERM", "xterm", 1);
    ::setenv("HYPERION_RUNS", scratch.runs().c_str(), 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    const std::string path = testing::program();
    std::vector<char*> argv{const_cast<char*>(path.c_str())};
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(scratch.path().c_str()) == 0) ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  ~OnTerminal() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(master_), ::close(slave_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& keys) const {
    if (::write(master_, keys.data(), keys.size()) < 0) ADD_FAILURE() << "cannot type";
  }
  void signal(int number) const { ::kill(pid_, number); }

  // What is shown from now on, until `text` is in it; whatever came within a minute where it is not.
  std::string until(const std::string& text) {
    std::string seen;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (seen.find(text) == seen.npos && std::chrono::steady_clock::now() < end) {
      pollfd waiting{master_, POLLIN, 0};
      char byte = 0;
      if (::poll(&waiting, 1, 100) > 0 && ::read(master_, &byte, 1) == 1) seen += byte;
    }
    return seen;
  }

  // The exit code; 128 + signal where one ended it, -1 where it did not end.
  int wait() {
    for (int i = 0; i < 600; ++i) {
      int status = 0;
      until_quiet();
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
    }
    return -1;
  }

  bool echoes() const {
    termios now{};
    return ::tcgetattr(slave_, &now) == 0 && (now.c_lflag & ECHO) != 0 && (now.c_lflag & ICANON) != 0;
  }

 private:
  void until_quiet() const {
    pollfd waiting{master_, POLLIN, 0};
    char bytes[256];
    if (::poll(&waiting, 1, 100) > 0) (void)!::read(master_, bytes, sizeof bytes);
  }
  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
};

class ChatOnTerminal : public ::testing::Test {
 protected:
  ChatOnTerminal() {
    const auto recipe = testing::tiny_recipe(scratch_);
    const Words train = {"train", recipe, "--run", "sums", "--steps", "5", "--eval.every=0", "--device", "cpu"};
    EXPECT_EQ(run(scratch_, train).code, 0);
    EXPECT_EQ(run(scratch_, {"export", "sums", "--to", "model"}).code, 0);
    write_template("{% for m in messages %}{{ m.content }}{% endfor %}:");
  }
  void write_template(const std::string& text) {
    testing::write_file(scratch_.path() / "model/chat_template.jinja", text);
  }
  static Words chat() { return {"chat", "model", "--tokens", "3", "--top-k", "4", "--repetition-penalty", "1.1"}; }
  Scratch scratch_;
};

constexpr const char* kShown = "\x1b[K";

TEST_F(ChatOnTerminal, lines_are_edited_remembered_and_commands_obeyed) {
  OnTerminal terminal(scratch_, chat());
  ASSERT_NE(terminal.until(kShown).find("/help"), std::string::npos);
  EXPECT_FALSE(terminal.echoes());
  terminal.type("13\x1b[D2\n");  // arrow left: 123
  EXPECT_NE(terminal.until("> 123").find("> 123"), std::string::npos);
  terminal.until(std::string("\r> ") + kShown);  // answered, and asked again
  terminal.type("/nothing\n");
  EXPECT_NE(terminal.until("/exit").find("/nothing is not known"), std::string::npos);
  terminal.until(std::string("\r> ") + kShown);
  terminal.type("/system Be brief.\n");
  EXPECT_NE(terminal.until("anew").find("begun anew"), std::string::npos);
  terminal.until(std::string("\r> ") + kShown);
  terminal.type("\x1b[A\x1b[A\x1b[A");  // up to the first question
  EXPECT_NE(terminal.until("> 123").find("> 123"), std::string::npos);
  terminal.type("\x15/exit\n");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_TRUE(terminal.echoes());
}

TEST_F(ChatOnTerminal, a_question_that_cannot_be_answered_ends_no_dialogue) {
  OnTerminal terminal(scratch_, chat());
  terminal.until(kShown);
  terminal.type(std::string(60, '1') + "\n");
  EXPECT_NE(terminal.until("hint:").find("the prompt has 61 tokens"), std::string::npos);
  terminal.until(std::string("\r> ") + kShown);
  terminal.type("1+1\n");
  terminal.until("> 1+1");
  terminal.until(std::string("\r> ") + kShown);
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(ChatOnTerminal, signals_are_heard_and_leave_the_terminal_as_it_was) {
  for (const int number : {SIGINT, SIGTERM}) {
    OnTerminal terminal(scratch_, chat());
    terminal.until(kShown);
    terminal.signal(number);
    EXPECT_EQ(terminal.wait(), 128 + number);
    EXPECT_TRUE(terminal.echoes());
  }
}

TEST_F(ChatOnTerminal, a_full_dialogue_says_how_to_begin_anew) {
  OnTerminal terminal(scratch_, chat());
  terminal.until(kShown);
  terminal.type("1+1\n");
  terminal.until("> 1+1");
  terminal.until(std::string("\r> ") + kShown);
  terminal.type(std::string(55, '1') + "\n");
  const std::string shown = terminal.until("hyperion chat`");
  EXPECT_NE(shown.find("the dialogue is full"), std::string::npos) << shown;
  EXPECT_NE(shown.find("/reset"), std::string::npos) << shown;
}

TEST_F(ChatOnTerminal, commands_are_understood_as_people_type_them) {
  for (const char* farewell : {"/quit", "/exit", "quit", "exit"}) {
    OnTerminal terminal(scratch_, chat());
    terminal.until(kShown);
    terminal.type("help\n");
    EXPECT_NE(terminal.until("leaves.").find("/quit"), std::string::npos);
    terminal.until(std::string("\r> ") + kShown);
    terminal.type(std::string(farewell) + "\n");
    EXPECT_EQ(terminal.wait(), 0) << farewell;
  }
}

TEST_F(ChatOnTerminal, ctrl_c_ends_an_answer_and_not_the_dialogue) {
  write_template("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}");
  OnTerminal terminal(scratch_, chat());
  terminal.until(kShown);
  for (int time = 0; time < 2; ++time) {
    terminal.type("hi\n");
    terminal.until("hi\x1b[K\r\n");
    terminal.signal(SIGINT);
    EXPECT_NE(terminal.until("forgotten").find("(stopped"), std::string::npos);
    terminal.until(std::string("\r> ") + kShown);
  }
  terminal.signal(SIGINT);
  EXPECT_EQ(terminal.wait(), 128 + SIGINT);
}

TEST_F(ChatOnTerminal, a_template_does_not_speak_to_the_terminal) {
  write_template("{{ raise_exception('\x1b[2J' ~ range(99999) | join('\xc2\x9b')) }}");
  OnTerminal terminal(scratch_, chat());
  terminal.until(kShown);
  terminal.type("hi\n");
  terminal.until("hi\x1b[K\r\n");
  const std::string shown = terminal.until("hint:");
  EXPECT_NE(shown.find("refuses the messages: \\x1b[2J0\\x9b1"), std::string::npos) << shown;
  EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
  EXPECT_LT(shown.size(), 3000u);
}

TEST_F(ChatOnTerminal, sigterm_is_heard_while_a_template_goes_on_and_on) {
  write_template(
      "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}{% "
      "endfor %}");
  {
    OnTerminal terminal(scratch_, chat());
    terminal.until(kShown);
    terminal.type("hi\n");
    terminal.until("hi\x1b[K\r\n");
    terminal.signal(SIGTERM);
    EXPECT_EQ(terminal.wait(), 128 + SIGTERM);
  }
  OnTerminal terminal(scratch_, chat());
  terminal.until(kShown);
  terminal.type("hi\n");
  EXPECT_NE(terminal.until("steps").find("model:1: in the chat template"), std::string::npos);
  EXPECT_EQ(terminal.wait(), 1);
}

}  // namespace
}  // namespace hyperion

// `hyperion dash`: the address it prints, who is answered, a run that grows while it is followed, and its end.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Program;
using testing::run;
using testing::says;
using testing::Scratch;

class Connection {
 public:
  Connection(int port, const std::string& path, const std::string& token)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_port = htons(static_cast<uint16_t>(port)),
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return;
    const std::string asked =
        "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n\r\n";
    EXPECT_EQ(::send(socket_, asked.data(), asked.size(), MSG_NOSIGNAL), static_cast<ssize_t>(asked.size()));
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // All that came, until the text stands in it or nothing more comes.
  const std::string& read_until(const std::string& text) {
    char piece[4096];
    while (text.empty() || !says(all_, text)) {
      const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
      if (got <= 0) break;
      all_.append(piece, static_cast<size_t>(got));
    }
    return all_;
  }

 private:
  int socket_;
  std::string all_;
};

class Dash : public ::testing::Test {
 protected:
  std::map<std::string, std::string> own_config() { return {{"XDG_CONFIG_HOME", scratch_.path() / "config"}}; }
  // A run of so many steps, as its files say.
  void write_run(int64_t steps) {
    const auto folder = scratch_.runs() / "mine";
    std::filesystem::create_directories(folder);
    testing::write_file(folder / "config.resolved.toml", "[train]\n");
    for (int64_t step = 1; step <= steps; ++step) add_step(step);
  }
  void add_step(int64_t step) {
    std::ofstream(scratch_.runs() / "mine" / "metrics.jsonl", std::ios::app)
        << "{\"step\":" << step
        << ",\"loss\":1.5,\"grad_norm\":1,\"lr\":0.1,\"step_ms\":5,\"tokens\":8,\"tokens_per_s\":9,\"data_wait_ms\":0,"
           "\"forward_ms\":1,\"backward_ms\":1,\"optimizer_ms\":1,\"samples\":1,\"sample_hash\":\"00\"}\n";
  }
  // Reads the address that the program printed.
  void take_address(Program& dash) {
    ASSERT_TRUE(dash.wait_for_text("?token="));
    ASSERT_TRUE(dash.wait_for_text("Ctrl-C ends it"));
    // Of the process that was started last.
    std::set<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) folders.insert(entry.path());
    for (const auto& folder : folders) {
      const std::string out = testing::read_file(folder / "out");
      const size_t at = out.find("http://127.0.0.1:"), token = out.find("?token=");
      if (at == out.npos || token == out.npos) continue;
      port_ = std::stoi(out.substr(at + 17));
      token_ = out.substr(token + 7, out.find('\n', token) - token - 7);
    }
    ASSERT_GT(port_, 0);
  }
  std::string get(const std::string& path, const std::string& token) {
    return Connection(port_, path, token).read_until("");
  }

  Scratch scratch_;
  int port_ = 0;
  std::string token_;
};

TEST_F(Dash, follows_a_run_that_grows_and_ends_with_ctrl_c) {
  write_run(3);
  Program dash(scratch_, {"dash", "--port", "0"}, own_config());
  ASSERT_NO_FATAL_FAILURE(take_address(dash));
  EXPECT_TRUE(says(get("/", token_), "<!doctype html>"));
  EXPECT_TRUE(get("/api/runs", "wrong").starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(says(get("/api/run/mine/curves", token_), "\"curves\":"));
  Connection events(port_, "/events", token_);
  EXPECT_TRUE(says(events.read_until("\"step\":3"), "event: run"));
  add_step(4);
  EXPECT_TRUE(says(events.read_until("\"step\":4"), "\"step\":4"));
  EXPECT_TRUE(says(get("/api/run/mine/curves", token_), "\"steps\":[1,2,3,4]"));
  EXPECT_TRUE(says(get("/metrics", token_), "hyperion_train_loss{run=\"mine\"} 1.5"));
  dash.signal(SIGINT);
  const auto done = dash.wait();
  EXPECT_EQ(done.code, 130) << done.err;
}

TEST_F(Dash, keeps_its_token_over_a_restart) {
  write_run(1);
  for (int i = 0; i < 2; ++i) {
    Program dash(scratch_, {"dash", "mine", "--port", "0"}, own_config());
    const std::string before = token_;
    ASSERT_NO_FATAL_FAILURE(take_address(dash));
    EXPECT_TRUE(i == 0 || token_ == before);
    dash.signal(SIGTERM);
    EXPECT_EQ(dash.wait().code, 143);
  }
}

TEST_F(Dash, says_what_is_wrong_before_it_listens) {
  write_run(1);
  const auto unknown = run(scratch_, {"dash", "mime"}, own_config());
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(says(unknown.err, "did you mean mine?")) << unknown.err;
  const auto nowhere = run(scratch_, {"dash", "--runs", "nowhere"}, own_config());
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(says(nowhere.err, "--runs nowhere is no folder")) << nowhere.err;
  EXPECT_EQ(run(scratch_, {"dash", "--port", "70000"}, own_config()).code, 2);
  Program first(scratch_, {"dash", "--port", "0"}, own_config());
  ASSERT_NO_FATAL_FAILURE(take_address(first));
  const auto taken = run(scratch_, {"dash", "--port", std::to_string(port_)}, own_config());
  EXPECT_EQ(taken.code, 2);
  EXPECT_TRUE(says(taken.err, "cannot be listened on")) << taken.err;
}

}  // namespace
}  // namespace hyperion

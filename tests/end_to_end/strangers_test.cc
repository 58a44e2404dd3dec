// Strangers who connect to the ports of a job, and say nothing or hang up: it trains on. HYPERION_STRANGERS says how
// many come to each port, at 512 descriptors a process; from 10,000 on at 1,024.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/end_to_end/support_processes.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::read_file;
using testing::Scratch;
namespace fs = std::filesystem;

int strangers_a_port() {
  const char* told = std::getenv("HYPERION_STRANGERS");
  return told == nullptr ? 1500 : std::atoi(told);
}

// The TCP ports that a process listens on.
std::set<int> ports_of(int process) {
  std::set<std::string> sockets;
  std::error_code ignored;
  const std::string folder = "/proc/" + std::to_string(process);
  for (const auto& entry : fs::directory_iterator(folder + "/fd", ignored))
    sockets.insert(fs::read_symlink(entry.path(), ignored).string());
  std::set<int> ports;
  std::istringstream table(read_file(folder + "/net/tcp"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, skip, inode;
    words >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> skip;
    words >> inode;
    if (state == "0A" && sockets.count("socket:[" + inode + "]") != 0)
      ports.insert(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
  }
  return ports;
}

// Whether it was let in. It hangs up at once.
bool call_on(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const linger at_once{1, 0};  // no port of ours is kept waiting afterwards
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool in = ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return in;
}

class Strangers : public ::testing::Test {
 protected:
  std::vector<std::string> train(const std::string& run) const {
    const std::string limit = strangers_a_port() < 10'000 ? "512" : "1024";
    return {"-c",
            "ulimit -n " + limit + "; exec \"$@\"",
            "sh",
            testing::program(),
            "launch",
            "-n",
            "2",
            "--",
            "train",
            testing::tiny_recipe(scratch_),
            "--run",
            run,
            "--device",
            "cpu",
            "--parallel",
            "dp=2",
            "--zero",
            "2",
            "--steps",
            "40",
            "--eval.every=100",
            "--checkpoint.every=100"};
  }
  std::map<std::string, std::string> environment() const {
    return {{"HYPERION_TEST_PROGRAM", "/bin/sh"}, {"HYPERION_TEST_MARK", scratch_.path().string()}};
  }
  // So slow that it is still there when the last stranger has come.
  std::map<std::string, std::string> slow_environment() const {
    auto slow = environment();
    slow["HYPERION_SLOW_LINK"] = strangers_a_port() < 10'000 ? "10000us" : "60000us";
    return slow;
  }
  std::set<int> ports_of_job() const {
    std::set<int> ports;
    for (const int process : testing::processes_with("HYPERION_TEST_MARK=" + scratch_.path().string()))
      ports.merge(ports_of(process));
    return ports;
  }
  Scratch scratch_;
};

TEST_F(Strangers, at_every_port_of_a_job_do_not_disturb_it) {
  const Finished alone = testing::run(scratch_, train("alone"), environment());
  ASSERT_EQ(alone.code, 0) << alone.err;
  Program job(scratch_, train("visited"), slow_environment());
  ASSERT_TRUE(job.wait_for_text("step 1/40"));
  const std::set<int> ports = ports_of_job();
  EXPECT_FALSE(ports.empty()) << "the launcher's store at the least";
  int let_in = 0;
  for (const int port : ports)
    for (int i = 0; i < strangers_a_port(); ++i) let_in += call_on(port) ? 1 : 0;
  EXPECT_GT(let_in, 0) << "the store lets strangers speak";
  const Finished done = job.wait();
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "visited"), testing::losses(scratch_.runs() / "alone"));
}

TEST_F(Strangers, find_no_port_of_a_rank_once_all_ranks_are_connected) {
  Program job(scratch_, train("visited"), slow_environment());
  ASSERT_TRUE(job.wait_for_text("step 1/40"));
  EXPECT_EQ(ports_of_job().size(), 1u) << "the store's";
  EXPECT_EQ(job.wait().code, 0);
}

}  // namespace
}  // namespace hyperion

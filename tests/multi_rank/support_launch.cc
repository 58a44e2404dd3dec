#include "tests/multi_rank/support_launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace hyperion::testing {
namespace {

namespace fs = std::filesystem;

std::string read_output(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

bool ended(pid_t pid) {
  siginfo_t state{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == pid;
}

pid_t start(const std::vector<std::string>& command, const Environment& environment, const std::string& out,
            const std::string& err) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execve(argv[0], argv.data(), environ);
  ::_exit(127);
}

}  // namespace

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

Ranks::Ranks(int count, const std::vector<std::string>& command, const Environment& environment,
             const std::map<int, Environment>& of_rank) {
  std::string pattern = (fs::temp_directory_path() / "hyperion-ranks-XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  const std::string port = std::to_string(free_port());
  for (int rank = 0; rank < count; ++rank) {
    Environment own = environment;
    own["RANK"] = own["LOCAL_RANK"] = std::to_string(rank);
    own["WORLD_SIZE"] = own["LOCAL_WORLD_SIZE"] = std::to_string(count);
    own["MASTER_ADDR"] = "127.0.0.1";
    own["MASTER_PORT"] = port;
    own["OMP_NUM_THREADS"] = "1";
    if (const auto found = of_rank.find(rank); found != of_rank.end())
      for (const auto& [name, value] : found->second) own[name] = value;
    const std::string place = folder_ + "/" + std::to_string(rank);
    pids_.push_back(start(command, own, place + ".out", place + ".err"));
  }
}

Ranks::~Ranks() {
  for (const pid_t pid : pids_) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Ranks::signal(int rank, int number) { ::kill(pids_[static_cast<size_t>(rank)], number); }

std::string Ranks::output(int rank, const char* name) const {
  return read_output(fs::path(folder_) / (std::to_string(rank) + name));
}

bool Ranks::wait_for_text(int rank, const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    if ((output(rank, ".out") + output(rank, ".err")).find(text) != std::string::npos) return true;
    if (ended(pids_[static_cast<size_t>(rank)])) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::vector<RankResult> Ranks::wait(int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::vector<RankResult> results;
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    while (!ended(pids_[rank]) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!ended(pids_[rank])) ::kill(pids_[rank], SIGKILL);
    int status = 0;
    ::waitpid(pids_[rank], &status, 0);
    pids_[rank] = -1;
    results.push_back({WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                       output(static_cast<int>(rank), ".out"), output(static_cast<int>(rank), ".err")});
  }
  return results;
}

}  // namespace hyperion::testing

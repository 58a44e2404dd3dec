#include "tests/end_to_end/support_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

extern char** environ;

namespace hyperion::testing {

namespace fs = std::filesystem;

std::string program() {
  const char* told = std::getenv("HYPERION_TEST_PROGRAM");
  return told != nullptr ? told : HYPERION_PROGRAM;
}

Scratch::Scratch() {
  std::string pattern = (fs::temp_directory_path() / "hyperion-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}
Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Program::Program(const Scratch& scratch, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment) {
  static std::atomic<int> count{0};
  folder_ = scratch.path() / ("process-" + std::to_string(++count));
  fs::create_directories(folder_);
  const std::string out = folder_ / "out", err = folder_ / "err", runs = scratch.runs();
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::setenv("HYPERION_RUNS", runs.c_str(), 1);
  ::setenv("OMP_NUM_THREADS", "2", 1);
  ::setenv("OMP_WAIT_POLICY", "passive", 1);  // several programs share the cores in a test run
  ::unsetenv("NVPL_BLAS_DEBUG_CPU_TYPE");     // the program finds out for itself
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  const std::string path = program();
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (::chdir(scratch.path().c_str()) == 0) ::execve(path.c_str(), argv.data(), environ);
  ::_exit(127);
}

Program::~Program() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) { ::kill(pid_, number); }

std::string Program::output(const char* name) const { return read_file(folder_ / name); }

bool Program::has_ended() const {
  siginfo_t state{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == pid_;
}

bool Program::wait_for_text(const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    if ((output("out") + output("err")).find(text) != std::string::npos) return true;
    if (has_ended()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

bool Program::ends_within(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!has_ended() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return has_ended();
}

Finished Program::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), output("out"), output("err")};
}

Finished run(const Scratch& scratch, const std::vector<std::string>& arguments,
             const std::map<std::string, std::string>& environment) {
  return Program(scratch, arguments, environment).wait();
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void write_file(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

fs::path tiny_recipe(const Scratch& scratch) {
  const fs::path path = scratch.path() / "tiny.toml";
  write_file(path, R"([train]
steps = 24
batch = 8
accumulate = 2
length = 24
log_every = 1
[model]
layers = 2
heads = 2
width = 32
context = 48
dropout = 0.1
[data]
digits = 2
[optim]
warmup = 4
[eval]
every = 6
batches = 2
[checkpoint]
every = 5
keep = 3
)");
  return path;
}

std::vector<std::string> device_flags() {
  const char* device = std::getenv("HYPERION_TEST_DEVICE");
  if (device == nullptr) return {"--device", "cpu"};
  return {"--device", device, "--train.deterministic=true"};
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::map<int64_t, std::string> losses(const fs::path& run) {
  std::map<int64_t, std::string> found;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("split")) found[record["step"]] = record["loss"].dump() + " " + record["grad_norm"].dump();
  }
  return found;
}

}  // namespace hyperion::testing

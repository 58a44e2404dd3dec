#include "tests/end_to_end/support_hub.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <thread>

namespace hyperion::testing {

Hub::Hub(const Scratch& scratch) : folder_(scratch.path() / "hub"), cache_(scratch.path() / "cache") {
  std::filesystem::create_directories(folder_);
  const std::string script = std::string(HYPERION_SOURCE) + "/tests/end_to_end/hub_server.py", folder = folder_;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::execlp("python3", "python3", script.c_str(), folder.c_str(), nullptr);
    ::_exit(127);
  }
  std::string port;
  for (int i = 0; i < 3000 && port.empty(); ++i) {
    std::istringstream(read_file(folder_ / "ports")) >> port;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(port.empty()) << "the hub does not answer";
  address_ = "http://127.0.0.1:" + port;
}

Hub::~Hub() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::filesystem::path Hub::cached_model(const std::string& name) const {
  const size_t slash = name.find('/');
  return cache_ / ("models--" + name.substr(0, slash) + "--" + name.substr(slash + 1));
}

void Hub::behave(const std::string& json) const {
  write_file(folder_ / "behaviour.new", json);
  std::filesystem::rename(folder_ / "behaviour.new", folder_ / "behaviour.json");
}

std::vector<std::string> Hub::requests(const std::string& part) const {
  std::vector<std::string> found;
  std::istringstream lines(read_file(folder_ / "requests"));
  for (std::string line; std::getline(lines, line);)
    if (says(line, part)) found.push_back(line);
  return found;
}

std::map<std::string, std::string> Hub::online(const std::map<std::string, std::string>& more) const {
  auto environment = offline();
  environment["HF_ENDPOINT"] = address_;
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

std::map<std::string, std::string> Hub::offline() const {
  return {{"HF_ENDPOINT", "http://127.0.0.1:9"},
          {"HF_HUB_CACHE", cache_.string()},
          {"HF_HOME", cache_.string() + "-home"},
          {"HF_TOKEN", ""},
          {"HF_HUB_OFFLINE", ""},
          {"no_proxy", "*"}};
}

}  // namespace hyperion::testing

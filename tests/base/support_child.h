// What tests of processes, folders and errors share.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "hyperion/base/error.h"

namespace hyperion::base::test {

// A folder of this test's own, gone at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Runs `body` in a forked child, which leaves with what it returns: the exit code, or 128 + the signal that killed it;
// an exception leaves with 99.
template <class Body>
int exit_code_of_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The text of the E that `body` throws, as the user would read it; empty where it throws none. Other exceptions pass.
template <class E = Error, class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const E& error) {
    return error_text(error);
  }
  return {};
}

}  // namespace hyperion::base::test

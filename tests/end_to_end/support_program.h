// Runs the program as a user would: another process, its exit code, what it printed, signals at will.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hyperion::testing {

struct Finished {
  int code = -1;  // 128 + signal where one ended it
  std::string out, err;
};

// A folder of the test's own, removed at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  std::filesystem::path path() const { return path_; }
  std::filesystem::path runs() const { return path_ / "runs"; }

 private:
  std::filesystem::path path_;
};

// The one under test: HYPERION_TEST_PROGRAM, else the one that was built with this test.
std::string program();

class Program {
 public:
  // Starts `hyperion arguments...` with HYPERION_RUNS in the scratch folder and two threads.
  Program(const Scratch& scratch, const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {});
  ~Program();  // kills it if it still runs
  void signal(int number);
  pid_t pid() const { return pid_; }
  std::string said() const { return output("err"); }  // so far, on stderr
  // Until the text shows in either output; false when the program ended or 60 s passed without it.
  bool wait_for_text(const std::string& text);
  bool ends_within(double seconds);
  Finished wait();

 private:
  bool has_ended() const;
  std::string output(const char* name) const;
  std::filesystem::path folder_;
  pid_t pid_;
};

Finished run(const Scratch& scratch, const std::vector<std::string>& arguments,
             const std::map<std::string, std::string>& environment = {});

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& content);

// A recipe small enough that a run takes a second, with dropout, accumulation and several checkpoints.
std::filesystem::path tiny_recipe(const Scratch& scratch);
// --device and determinism for the device under test: HYPERION_TEST_DEVICE, else the CPU.
std::vector<std::string> device_flags();
std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b);

// step -> the loss and gradient norm as written, to the last digit.
std::map<int64_t, std::string> losses(const std::filesystem::path& run);

}  // namespace hyperion::testing

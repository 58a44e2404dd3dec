// Starts a program once a rank, with the variables torchrun sets, and waits for all.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace hyperion::testing {

struct RankResult {
  int code = -1;  // 128 + signal where one ended it
  std::string out, err;
};

using Environment = std::map<std::string, std::string>;

class Ranks {
 public:
  // `environment` for all; `of_rank` for one.
  Ranks(int count, const std::vector<std::string>& command, const Environment& environment = {},
        const std::map<int, Environment>& of_rank = {});
  ~Ranks();  // kills those that still run
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void signal(int rank, int number);
  bool wait_for_text(int rank, const std::string& text);  // in either output; false after 60 s or at its end
  std::vector<RankResult> wait(int seconds = 240);        // kills what is left after that

 private:
  std::string output(int rank, const char* name) const;
  std::string folder_;
  std::vector<pid_t> pids_;
};

int free_port();

}  // namespace hyperion::testing

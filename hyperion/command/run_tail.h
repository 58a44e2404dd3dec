// The last lines of a run's account, from its metrics: while it is trained, here or elsewhere, and afterwards.
#pragma once
#include <cstdint>
#include <string>

namespace hyperion::cli {

struct TailOptions {
  int64_t lines = 10;
  bool follow = false, json = false;
};
// Followed, it ends with the run, or when a signal asks for it. Returns the exit code.
int tail_run(const std::string& run, const TailOptions& options);

}  // namespace hyperion::cli

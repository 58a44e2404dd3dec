// A first meeting of all ranks of a job, to see that they find each other and can add up numbers. Free of c10d.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/host/launch.h"

namespace hyperion::comm {

struct Member {
  int rank = 0, local_rank = 0;
  std::string host;
  int64_t process = 0;
  std::vector<int> cores;  // that it may use
};

struct Meeting {
  std::vector<Member> members;  // by rank
  double seconds = 0;           // from the first word to the last
};

// Joins the job's store, tells the others who this is, waits for all of them, and adds up all ranks over Gloo. Throws
// Error that names the ranks which did not come within `timeout`.
Meeting meet(const host::Launch& launch, std::chrono::milliseconds timeout);

}  // namespace hyperion::comm

// A process that outlives the launcher by a moment, to end the process groups that a killed launcher left behind: a
// parent-death signal reaches a rank, but not the programs which that rank started.
#pragma once
#include <sys/types.h>

namespace hyperion::resilience {

class Guardian {
 public:
  Guardian();   // call before any thread is started: it forks
  ~Guardian();  // nobody is left to guard: it leaves
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  void guard(pid_t group);
  void release(pid_t group);  // its last process is gone: the number may soon be another's

 private:
  int pipe_ = -1;
  pid_t process_ = -1;
};

}  // namespace hyperion::resilience

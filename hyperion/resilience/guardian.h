// A process that outlives the launcher by a moment, to end what the ranks left behind: a parent-death signal reaches a
// rank, but not the programs which that rank started. These are known by their process group and, where they made
// themselves a session of their own, by a mark in the environment that they were started with.
#pragma once
#include <sys/types.h>

#include <string>

namespace hyperion::resilience {

// Names the launchers that a process was started by, from the outermost to the nearest.
constexpr const char* kLaunchersVariable = "HYPERION_LAUNCHERS";

class Guardian {
 public:
  Guardian();   // call before any thread is started: it forks
  ~Guardian();  // the ranks have ended: waits until what carries their mark is gone too
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  void guard(pid_t group);
  void release(pid_t group);  // its last process is gone: the number may soon be another's
  // NAME=VALUE for the environment of a rank. Holds the marks of launchers around this one too.
  const std::string& mark() const { return mark_; }

 private:
  std::string mark_;
  int pipe_ = -1;
  pid_t process_ = -1;
};

}  // namespace hyperion::resilience

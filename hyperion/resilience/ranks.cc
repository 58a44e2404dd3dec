#include "hyperion/resilience/ranks.h"

#include <sys/wait.h>

#include <cstring>

#include "hyperion/base/format.h"

namespace hyperion::resilience {

std::string Ending::text() const {
  return by_signal ? base::format("signal {} ({})", number, ::strsignal(number)) : base::format("exit code {}", number);
}

Ending ending_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? Ending{true, WTERMSIG(wait_status)} : Ending{false, WEXITSTATUS(wait_status)};
}

}  // namespace hyperion::resilience

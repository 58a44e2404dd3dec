#include "hyperion/host/clock_sync.h"

#include <sys/timex.h>

namespace hyperion::host {

std::optional<bool> clock_synchronized() {
  timex question{};  // no mode set: reads only
  const int state = ::adjtimex(&question);
  if (state < 0) return std::nullopt;
  return state != TIME_ERROR && (question.status & STA_UNSYNC) == 0;
}

}  // namespace hyperion::host

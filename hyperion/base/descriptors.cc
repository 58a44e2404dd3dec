#include "hyperion/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "hyperion/base/format.h"

namespace hyperion::base {

void raise_descriptor_limit() {
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return INT_MAX;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
}

bool lacks_descriptors(int code) { return code == EMFILE || code == ENFILE; }

std::string descriptor_hint() {
  return format("this process may have {} files, pipes and sockets open at once: raise that (ulimit -n 4096)",
                descriptor_limit());
}

}  // namespace hyperion::base

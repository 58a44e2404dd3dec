#include "hyperion/host/blas.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <cstdlib>
#endif

namespace hyperion::host {

void settle_blas() {
#if defined(__aarch64__) && defined(__linux__)
  if ((::getauxval(AT_HWCAP) & HWCAP_SVE) == 0) ::setenv("NVPL_BLAS_DEBUG_CPU_TYPE", "1", /*overwrite=*/0);
#endif
}

}  // namespace hyperion::host

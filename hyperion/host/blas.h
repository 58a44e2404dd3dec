// What LibTorch's BLAS must be told of this machine.
#pragma once

namespace hyperion::host {

// On Arm that BLAS is NVPL. It knows a processor by its number, and where the wide vectors (SVE) that such a processor
// has are switched off, as in some virtual machines, its first product never ends. There it is told to take the
// processor for a plainer one, unless its variable is set. To be called before that product.
void settle_blas();

}  // namespace hyperion::host

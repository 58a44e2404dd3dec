// Fewer points for the same picture.
#pragma once
#include <cstddef>

#include "hyperion/report/series.h"

namespace hyperion::report {

// At most `most` points (6 or more) of the series, in order: the first, the last, the lowest and highest of every
// stretch, and one that is not finite where a stretch has one. A short series comes back unchanged.
Series thinned(const Series& series, size_t most);

}  // namespace hyperion::report

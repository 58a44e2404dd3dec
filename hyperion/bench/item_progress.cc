#include "hyperion/bench/item_progress.h"

#include "hyperion/base/format.h"

namespace hyperion::bench {

void ItemProgress::begin(const std::string& item) {
  item_ = base::format("{} of {}: {}", ++begun_, items_, item);
  line_.live() ? line_.show(item_) : base::log_info(item_);
}

void ItemProgress::timed(int64_t steps, int64_t of) { line_.show(base::format("{}, step {} of {}", item_, steps, of)); }

}  // namespace hyperion::bench

// What a bench is at: on a terminal one line with how far it is, else a line for each item.
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::bench {

class ItemProgress {
 public:
  explicit ItemProgress(int64_t items) : items_(items) {}
  void begin(const std::string& item) {
    item_ = base::format("{} of {}: {}", ++begun_, items_, item);
    line_.live() ? line_.show(item_) : base::log_info(item_);
  }
  void timed(int64_t steps, int64_t of) {  // of the item
    line_.show(base::format("{}, step {} of {}", item_, steps, of));
  }
  void clear() { line_.clear(); }

 private:
  int64_t items_, begun_ = 0;
  std::string item_;
  base::ProgressLine line_;
};

}  // namespace hyperion::bench

// How far work with many bytes has come.
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/base/clock.h"
#include "hyperion/base/log.h"

namespace hyperion::cli {

// A live line on a terminal, a plain one every ten seconds elsewhere; with rate and time left.
class Meter {
 public:
  void show(const std::string& doing, uint64_t done, uint64_t all, const std::string& more);
  void clear() { line_.clear(); }

 private:
  base::ProgressLine line_;
  std::string doing_;
  double begun_ = 0, told_ = base::real_clock().seconds() - 8;
  uint64_t first_ = 0;
};

}  // namespace hyperion::cli

// A progress line for reading that takes long; nothing where it is quick.
#pragma once
#include <optional>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::checkpoint {

class ReadingLine {
 public:
  explicit ReadingLine(std::string doing) : doing_(std::move(doing)) {}
  ~ReadingLine() {
    if (line_) line_->clear();
  }
  ReadingLine(const ReadingLine&) = delete;
  ReadingLine& operator=(const ReadingLine&) = delete;
  void show(int64_t done, int64_t all) {
    if (base::real_clock().seconds() - start_ < kQuietSeconds) return;
    if (!line_) line_.emplace();
    line_->show(base::format("{}: {} of {}", doing_, base::bytes_text(static_cast<uint64_t>(done)),
                             base::bytes_text(static_cast<uint64_t>(all))));
  }

 private:
  static constexpr double kQuietSeconds = 2;
  std::string doing_;
  double start_ = base::real_clock().seconds();
  std::optional<base::ProgressLine> line_;
};

}  // namespace hyperion::checkpoint

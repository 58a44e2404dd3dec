// Time behind a seam: tests move it by hand.
#pragma once
#include <optional>
#include <string>

namespace hyperion::base {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double seconds() const = 0;       // monotonic, from an arbitrary start
  virtual double unix_seconds() const = 0;  // wall time
};
const Clock& real_clock();
inline double now() { return real_clock().seconds(); }

class FakeClock final : public Clock {
 public:
  double seconds() const override { return now_; }
  double unix_seconds() const override { return 1.7e9 + now_; }
  void advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

std::string utc_text(double unix_seconds);    // "2026-11-15T01:40:00Z"
std::optional<double> unix_seconds_of(const std::string& utc_text);
std::string file_stamp(double unix_seconds);  // "20261115-014000", UTC, for names

}  // namespace hyperion::base

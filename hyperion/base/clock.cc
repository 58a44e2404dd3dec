#include "hyperion/base/clock.h"

#include <chrono>
#include <ctime>

namespace hyperion::base {
namespace {
class RealClock final : public Clock {
 public:
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double unix_seconds() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

std::string utc(double unix_seconds, const char* pattern) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[40];
  std::strftime(text, sizeof text, pattern, &parts);
  return text;
}
}  // namespace

const Clock& real_clock() {
  static const RealClock clock;
  return clock;
}

std::string utc_text(double unix_seconds) { return utc(unix_seconds, "%Y-%m-%dT%H:%M:%SZ"); }
std::optional<double> unix_seconds_of(const std::string& utc_text) {
  std::tm parts{};
  const char* const end = strptime(utc_text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<double>(timegm(&parts));
}
std::string file_stamp(double unix_seconds) { return utc(unix_seconds, "%Y%m%d-%H%M%S"); }

}  // namespace hyperion::base

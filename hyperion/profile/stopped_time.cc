#include "hyperion/profile/stopped_time.h"

namespace hyperion::profile {

StoppedTime::StoppedTime(std::chrono::milliseconds period, std::chrono::milliseconds tolerated)
    : thread_([this, period, tolerated] { loop(period, tolerated); }) {}

StoppedTime::~StoppedTime() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void StoppedTime::loop(std::chrono::milliseconds period, std::chrono::milliseconds tolerated) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  auto due = Clock::now() + period;
  while (!ended_.wait_until(lock, due, [this] { return ends_; })) {
    const auto now = Clock::now();
    if (now - due > tolerated) nanoseconds_ += std::chrono::duration_cast<std::chrono::nanoseconds>(now - due).count();
    due = now + period;
  }
}

}  // namespace hyperion::profile

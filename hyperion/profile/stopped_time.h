// How long this process has not run at all: stopped by a signal, frozen, or without a core for longer than others
// usually keep one. A thread of its own wakes up again and again and looks how late it is.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace hyperion::profile {

class StoppedTime {
 public:
  explicit StoppedTime(std::chrono::milliseconds period = std::chrono::milliseconds(10),
                       std::chrono::milliseconds tolerated = std::chrono::milliseconds(25));
  ~StoppedTime();
  StoppedTime(const StoppedTime&) = delete;
  StoppedTime& operator=(const StoppedTime&) = delete;

  double seconds() const { return 1e-9 * static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)); }

 private:
  void loop(std::chrono::milliseconds period, std::chrono::milliseconds tolerated);

  std::atomic<int64_t> nanoseconds_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace hyperion::profile

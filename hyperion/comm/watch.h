// What is told of a collective that waits too long: operation, group, bytes, who asked, and which ranks are missing.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "hyperion/comm/transport.h"

namespace hyperion::comm {

// Of one group, whose thread says what it begins and ends; any thread may start it.
class Watch {
 public:
  Watch(std::string group, Transport& transport);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // From now on what waits longer than `after` is told of, once each time that long has passed. To the log, or to
  // `report`, from a thread of its own. Once.
  void start(std::chrono::milliseconds after, std::function<void(const std::string&)> report);

  struct Call {
    std::string operation, caller;
    int64_t bytes, number;  // number: the how manyth of its group
  };
  void begun(Call call);
  // Where `done` is given the call was only handed to the GPU, and is over when it returns true.
  void ended(std::function<bool()> done = {});

 private:
  struct Watched {
    Call call;
    double start, told;          // seconds; told of at first when it starts
    std::function<bool()> done;  // empty: in the thread's hands
  };
  Watched* overdue();
  void look_after();
  void tell(const Call& call, double start);

  std::string group_;
  Transport& transport_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Watched> under_way_;
  std::deque<Watched> on_device_;
  double patience_ = 0;
  std::function<void(const std::string&)> report_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace hyperion::comm

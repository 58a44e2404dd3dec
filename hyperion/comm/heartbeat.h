// Tells the store, from a thread of its own, that this rank lives, so that the launcher can name a frozen one.
#pragma once
#include <functional>
#include <memory>

#include "hyperion/comm/store_connection.h"

namespace hyperion::comm {

class Heartbeat {
 public:
  using Told = std::function<void(const std::string& why)>;
  // Beats each `interval`. From that thread, each at most once: `lost` when the store is gone, for whoever hosted it
  // has ended, and the job with it; `over` when the store says that the job is.
  Heartbeat(const StoreAddress& address, int rank, std::chrono::milliseconds interval, Told lost, Told over = {});
  ~Heartbeat();  // says goodbye: nobody misses this rank's beats

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hyperion::comm

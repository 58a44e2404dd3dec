// Tells the store, from a thread of its own, that this rank lives, so that the launcher can name a frozen one.
#pragma once
#include <functional>
#include <memory>

#include "hyperion/comm/store_connection.h"

namespace hyperion::comm {

class Heartbeat {
 public:
  // Beats each `interval`. `lost` is called once, from that thread, with the reason, when the store is gone: whoever
  // hosted it has ended, and the job with it.
  Heartbeat(const StoreAddress& address, int rank, std::chrono::milliseconds interval,
            std::function<void(const std::string&)> lost);
  ~Heartbeat();  // says goodbye: nobody misses this rank's beats

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hyperion::comm

// What the launchers of one job's machines tell each other, through the job's store.
#pragma once
#include <functional>
#include <string>

#include "hyperion/comm/store_connection.h"

namespace hyperion::resilience {

class LauncherBoard {
 public:
  // Waits for the store to come up; throws StoreLost where it does not. `meanwhile` may throw to give up. `number` is
  // what this launcher's heartbeats are known by (store_server.h).
  LauncherBoard(const comm::StoreAddress& address, int number, int launchers, std::function<void()> meanwhile);

  void tell(const std::string& failure);
  // The first failure that a launcher told, or that the store itself is gone; empty: none.
  std::string failure();

  void leave();  // this launcher's ranks have all ended
  // For the one that hosts the store: until all have left or, as `lost` counts, are lost, or `stop` says so.
  void wait_for_all(const std::function<int()>& lost, const std::function<bool()>& stop);

 private:
  std::string ask(const std::string& frame);

  comm::StoreConnection connection_;
  int number_, launchers_;
};

}  // namespace hyperion::resilience

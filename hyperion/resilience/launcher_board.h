// What the launchers of one job's machines tell each other, through the job's store.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "hyperion/comm/store_connection.h"

namespace hyperion::resilience {

class LauncherBoard {
 public:
  // Waits for the store to come up, and passes over one where the job has failed already: that is the last of a start
  // before. Throws StoreLost where there is none. `meanwhile` may throw to give up. `number` is what this launcher's
  // heartbeats are known by (store_server.h).
  LauncherBoard(const comm::StoreAddress& address, int number, int launchers, const std::function<void()>& meanwhile);

  // Until all launchers are here, for at most `seconds`; whether they are. `waiting` is told how many are, once that
  // takes long.
  bool meet(double seconds, const std::function<void()>& meanwhile, const std::function<void(int here)>& waiting);

  void tell(const std::string& failure);
  // The first failure that a launcher told, or that the store itself is gone; empty: none.
  std::string failure();

  void leave();  // this launcher's ranks have all ended
  // For the one that hosts the store: until all have left or, as `lost` counts, are lost, or `stop` says so.
  void wait_for_all(const std::function<int()>& lost, const std::function<bool()>& stop);

 private:
  std::string ask(const std::string& frame);

  uint64_t count(const std::string& key, uint64_t more);

  std::unique_ptr<comm::StoreConnection> connection_;
  int number_, launchers_;
};

}  // namespace hyperion::resilience

#include "hyperion/comm/heartbeat.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "hyperion/comm/store_protocol.h"

namespace hyperion::comm {
namespace {

constexpr std::chrono::seconds kPatience{30};  // a frozen launcher may be thawed; a dead one is noticed at once

std::string frame(Ask kind, int rank) {
  return std::move(FrameWriter(kind).number(static_cast<uint64_t>(rank))).bytes();
}

}  // namespace

struct Heartbeat::State {
  StoreConnection connection;
  int rank;
  std::chrono::milliseconds interval;
  Heartbeat::Told lost, over;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;

  void beat() {
    const std::string answer = connection.ask(frame(Ask::beat, rank), kPatience);
    FrameReader reader(answer);
    reader.kind();
    if (const auto why = reader.text(); !why.empty() && over) std::exchange(over, {})(std::string(why));
  }

  void run() {
    try {
      std::unique_lock lock(mutex);
      while (!stop) {
        lock.unlock();
        beat();
        lock.lock();
        wake.wait_for(lock, interval, [this] { return stop; });
      }
      lock.unlock();
      connection.ask(frame(Ask::leave, rank), std::chrono::seconds(1));
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (stop) return;  // it ended before us; we were leaving anyway
      }
      lost(error.what());
    }
  }
};

Heartbeat::Heartbeat(const StoreAddress& address, int rank, std::chrono::milliseconds interval, Told lost, Told over)
    : state_(new State{{address, kPatience}, rank, interval, std::move(lost), std::move(over), {}, {}, false, {}}) {
  // The first beat before anything else: from here on this rank counts as present.
  state_->connection.ask(frame(Ask::beat, rank), kPatience);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

}  // namespace hyperion::comm

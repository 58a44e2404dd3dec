// The calls of one group, carried out one after the other in the order asked: by a thread of the group's own, or in
// place, by the thread that asks, where they only queue work on a GPU's stream: those a graph can record.
#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/comm/pending.h"
#include "hyperion/comm/traffic.h"
#include "hyperion/comm/watch.h"

namespace hyperion::comm {

// Adds up what calls moved and how long they took; a GPU's part once its events are there.
class Ledger {
 public:
  void called(const std::string& key, int64_t bytes, double seconds);
  void exposed(const std::string& key, double seconds);
  // Queued on a GPU's stream, where it ends later: its tensors are kept until then.
  void queued(std::shared_ptr<Pending::Work> work);
  void waited(std::shared_ptr<Pending::Work> work, c10::Event joined);  // a caller's stream came to wait for it
  void replayed(const TrafficByCaller& recorded);

  TrafficByCaller traffic();  // of what has ended
  void reset();
  void synchronize();  // until all that was queued has ended

 private:
  void read_events();  // with the lock held

  struct Wait {
    std::shared_ptr<Pending::Work> work;
    c10::Event joined;
  };
  std::mutex mutex_;
  TrafficByCaller traffic_;
  std::deque<std::shared_ptr<Pending::Work>> under_way_;
  std::deque<Wait> waits_;
};

struct Pending::Work {
  std::string operation, caller;
  int64_t bytes = 0;
  c10::Device device = c10::kCPU;
  std::function<void()> run;
  // On a GPU: what the caller had queued when it asked, and where the group's stream begins and ends it.
  std::optional<c10::Event> asked, begun, ended;
  bool recorded = false;
  std::shared_ptr<Ledger> ledger;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;

  std::string key() const { return operation + " " + caller; }
  void wait();
};

class Calls {
 public:
  Calls(std::string group, Transport& transport);
  ~Calls();  // finishes what was asked
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void in_thread(std::shared_ptr<Pending::Work> work);
  void in_place(const std::shared_ptr<Pending::Work>& work);

  // From one to the other calls in place are recorded by a graph: they are counted, not timed. Returns their count.
  void begin_recording();
  TrafficByCaller end_recording();

  Watch& watch() { return watch_; }
  const std::shared_ptr<Ledger>& ledger() const { return ledger_; }
  void set_slow_link(SlowLink link);
  bool slow() const;

 private:
  void loop();
  void carry_out(const std::shared_ptr<Pending::Work>& work, SlowLink slow);
  void run(Pending::Work& work);
  base::Error failure(const Pending::Work& work, const std::string& words);

  std::string group_;
  Transport& transport_;
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  std::string ranks_;    // of the job: "0, 2, 4"
  std::mutex carrying_;  // one call at a time, whoever carries it out
  int64_t calls_ = 0;
  std::map<std::string, int64_t> calls_of_kind_;
  std::exception_ptr broken_;
  std::optional<c10::Stream> stream_;
  std::optional<TrafficByCaller> recording_;
  std::vector<std::shared_ptr<Pending::Work>> recorded_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending::Work>> queue_;
  SlowLink slow_;
  bool stopped_ = false;
  Watch watch_;
  std::thread thread_;
};

// An event at the end of what is queued on the device's current stream now; none on the CPU.
std::optional<c10::Event> mark(c10::Device device, bool timed);

}  // namespace hyperion::comm

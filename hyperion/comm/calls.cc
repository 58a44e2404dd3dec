#include "hyperion/comm/calls.h"

#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/waiting.h"
#include "hyperion/profile/span.h"

// Who carries a call out, and when its times are known. Gloo's calls block the thread that makes them, so a group has a
// thread of its own; on a GPU that thread works on a stream beside the caller's, which waits for the event that the
// caller's stream had when it asked (`asked`), and whose end (`ended`) the caller's stream waits for in wait(). NCCL's
// calls only queue, so the asking thread makes them itself (`in_place`): no thread to hand over to, and a graph that is
// being recorded sees them. Times of both come from the device's own events, read when they are there; the host never
// waits for a figure. Exposed is what a caller's stream waited: from where it stood when it came to wait to the end.
namespace hyperion::comm {
namespace {

using base::format;
using base::now;

// Set while this thread carries a call out: what waits then is another call, not a caller.
thread_local bool inside_call = false;

class InsideCall {
 public:
  InsideCall() { inside_call = true; }
  ~InsideCall() { inside_call = before_; }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

 private:
  bool before_ = inside_call;
};

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

c10::Stream stream_beside(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

double seconds_between(const c10::Event& from, const c10::Event& to) { return 1e-3 * from.elapsedTime(to); }

}  // namespace

std::optional<c10::Event> mark(c10::Device device, bool timed) {
  if (device.is_cpu()) return std::nullopt;
  std::optional<c10::Event> event(std::in_place, device.type(),
                                  timed ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT);
  event->record(current_stream(device));
  return event;
}

void Ledger::called(const std::string& key, int64_t bytes, double seconds) {
  const std::lock_guard lock(mutex_);
  traffic_[key] += {1, bytes, seconds, 0};
}

void Ledger::exposed(const std::string& key, double seconds) {
  const std::lock_guard lock(mutex_);
  traffic_[key].exposed += seconds;
}

void Ledger::queued(std::shared_ptr<Pending::Work> work) {
  const std::lock_guard lock(mutex_);
  traffic_[work->key()] += {1, work->bytes, 0, 0};
  under_way_.push_back(std::move(work));
  read_events();
}

void Ledger::waited(std::shared_ptr<Pending::Work> work, c10::Event joined) {
  const std::lock_guard lock(mutex_);
  waits_.push_back({std::move(work), std::move(joined)});
}

// What a call uses on a GPU stays until the device is done with it, or a caller has put work of its own behind it:
// freed before that, its memory could already be another's.
void Ledger::read_events() {
  while (!under_way_.empty() && under_way_.front()->ended->query()) {
    Pending::Work& work = *under_way_.front();
    traffic_[work.key()].seconds += seconds_between(*work.begun, *work.ended);
    {
      const std::lock_guard lock(work.mutex);
      work.run = nullptr;
    }
    under_way_.pop_front();
  }
  std::erase_if(waits_, [&](const Wait& wait) {
    if (!wait.joined.query() || !wait.work->ended->query()) return false;
    traffic_[wait.work->key()].exposed += std::max(0.0, seconds_between(wait.joined, *wait.work->ended));
    return true;
  });
}

void Ledger::replayed(const TrafficByCaller& recorded) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, traffic] : recorded) traffic_[key] += traffic;
}

TrafficByCaller Ledger::traffic() {
  const std::lock_guard lock(mutex_);
  read_events();
  return traffic_;
}

void Ledger::reset() {
  const std::lock_guard lock(mutex_);
  read_events();
  traffic_.clear();
}

void Ledger::synchronize() {
  const std::lock_guard lock(mutex_);
  for (const auto& work : under_way_) work->ended->synchronize();
}

void Pending::wait() {
  if (!work_) return;
  const auto work = std::exchange(work_, nullptr);
  // Where the caller's stream stands as it comes to wait; the host may have to wait first.
  auto joined = work->recorded || inside_call ? std::nullopt : mark(work->device, /*timed=*/true);
  std::unique_lock lock(work->mutex);
  if (!work->done) {
    const double start = now();
    const profile::Span span("wait", work->operation);
    work->changed.wait(lock, [&] { return work->done; });
    if (work->device.is_cpu() && !inside_call) work->ledger->exposed(work->key(), now() - start);
  }
  if (work->error) std::rethrow_exception(work->error);
  if (!work->ended) return;
  work->ended->block(current_stream(work->device));
  if (inside_call) return;  // the streams whose memory it uses are not behind it yet
  work->run = nullptr;
  lock.unlock();
  if (joined) work->ledger->waited(work, *std::move(joined));
}

Calls::Calls(std::string group, Transport& transport)
    : group_(std::move(group)), transport_(transport), watch_(group_, transport) {
  for (int i = 0; i < transport.size(); ++i) ranks_ += format("{}{}", i == 0 ? "" : ", ", transport.of_job(i));
}

Calls::~Calls() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  ledger_->synchronize();
}

void Calls::set_slow_link(SlowLink link) {
  const std::lock_guard lock(mutex_);
  slow_ = link;
}

bool Calls::slow() const {
  const std::lock_guard lock(mutex_);
  return slow_.latency > 0 || slow_.bytes_per_second > 0;
}

void Calls::in_thread(std::shared_ptr<Pending::Work> work) {
  work->ledger = ledger_;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });  // a group that is never asked has none
  }
  changed_.notify_all();
}

void Calls::in_place(const std::shared_ptr<Pending::Work>& work) {
  const c10::AutoGradMode no_grad(false);
  work->ledger = ledger_;
  work->recorded = recording_.has_value();
  carry_out(work, {});
}

void Calls::loop() {
  const c10::AutoGradMode no_grad(false);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    const SlowLink slow = slow_;
    lock.unlock();
    carry_out(work, slow);
    lock.lock();
  }
}

void Calls::carry_out(const std::shared_ptr<Pending::Work>& work, SlowLink slow) {
  const std::lock_guard one(carrying_);
  profile::Span span(work->operation, work->caller, work->bytes);
  span.set_group(group_, ranks_, calls_of_kind_[work->operation]++);
  const double start = now();
  ++calls_;
  if (!work->recorded) watch_.begun({work->operation, work->caller, work->bytes, calls_});
  if (broken_) {
    work->error = broken_;
  } else {
    const Waiting here(format("{} of {} in group {}", work->operation, work->caller, group_));
    const InsideCall inside;
    try {
      if (slow.latency > 0 || slow.bytes_per_second > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(
            slow.latency + (slow.bytes_per_second > 0 ? static_cast<double>(work->bytes) / slow.bytes_per_second : 0)));
      run(*work);
    } catch (const base::Error&) {
      work->error = std::current_exception();
    } catch (const std::exception& error) {
      work->error = std::make_exception_ptr(failure(*work, error.what()));
    }
    // Once one call has failed the ranks no longer agree on what comes next: everything after it fails the same way.
    if (!work->recorded) broken_ = work->error;
  }
  const bool on_device = work->ended.has_value();
  if (work->recorded) {
    (*recording_)[work->key()] += {1, work->bytes, 0, 0};
    recorded_.push_back(work);
  } else {
    watch_.ended(on_device && transport_.is_stream_ordered() ? [work] { return work->ended->query(); }
                                                             : std::function<bool()>());
    if (!on_device) ledger_->called(work->key(), work->bytes, now() - start);
  }
  {
    const std::lock_guard lock(work->mutex);
    if (!on_device) work->run = nullptr;  // its tensors go with it
    work->done = true;
  }
  work->changed.notify_all();
  if (on_device && !work->recorded) ledger_->queued(work);
}

void Calls::run(Pending::Work& work) {
  if (work.device.is_cpu()) return work.run();
  if (!stream_) stream_ = stream_beside(work.device);
  const c10::StreamGuard guard(*stream_);
  work.asked->block(*stream_);
  if (!work.recorded) work.begun = mark(work.device, /*timed=*/true);
  work.run();
  work.ended = mark(work.device, /*timed=*/!work.recorded);
}

base::Error Calls::failure(const Pending::Work& work, const std::string& words) {
  const std::string doing = format("{} of {}", work.operation, work.caller);
  const std::string who = transport_.blame(calls_, doing);
  return base::Error(
      format("{} ({}, {}) in group {} failed on rank {}{}: {}", work.operation, work.caller,
             base::bytes_text(static_cast<uint64_t>(work.bytes)), group_, transport_.of_job(transport_.rank()),
             who.empty() ? "" : "; " + who, base::first_line(words)),
      "look at the log of the rank that is named, or of the first that failed");
}

void Calls::begin_recording() {
  const std::lock_guard one(carrying_);
  recording_.emplace();
}

// Its tensors lie in the graph's own memory, which nobody else gets while it is recorded: kept until here.
TrafficByCaller Calls::end_recording() {
  const std::lock_guard one(carrying_);
  recorded_.clear();
  return std::exchange(recording_, std::nullopt).value_or(TrafficByCaller());
}

}  // namespace hyperion::comm

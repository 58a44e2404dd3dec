#include "hyperion/comm/watch.h"

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::comm {
namespace {

using base::now;

}  // namespace

Watch::Watch(std::string group, Transport& transport) : group_(std::move(group)), transport_(transport) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watch::start(std::chrono::milliseconds after, std::function<void(const std::string&)> report) {
  HYPERION_CHECK(!thread_.joinable() && after.count() > 0, "a group is watched once");
  const std::lock_guard lock(mutex_);
  patience_ = std::chrono::duration<double>(after).count();
  report_ = std::move(report);
  thread_ = std::thread([this] { look_after(); });
}

void Watch::begun(Call call) {
  const double start = now();
  const std::lock_guard lock(mutex_);
  under_way_ = Watched{std::move(call), start, start, {}};
}

void Watch::ended(std::function<bool()> done) {
  const std::lock_guard lock(mutex_);
  if (patience_ > 0 && done) {
    on_device_.push_back(std::move(*under_way_));
    on_device_.back().done = std::move(done);
  }
  under_way_.reset();
}

// What does not end: in the group's thread, or handed to the GPU and not done there. Null: nothing waits too long.
Watch::Watched* Watch::overdue() {
  while (!on_device_.empty() && on_device_.front().done()) on_device_.pop_front();
  Watched* const oldest = !on_device_.empty() ? &on_device_.front() : under_way_ ? &*under_way_ : nullptr;
  return oldest != nullptr && now() - oldest->told >= patience_ ? oldest : nullptr;
}

void Watch::look_after() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> pause(std::clamp(patience_ / 8, 0.005, 1.0));
  while (!changed_.wait_for(lock, pause, [&] { return stopped_; })) {
    Watched* const found = overdue();
    if (found == nullptr) continue;
    found->told = now();
    const Call late = found->call;
    const double start = found->start;
    lock.unlock();
    tell(late, start);
    lock.lock();
  }
}

void Watch::tell(const Call& call, double start) {
  if (call.operation == "then") return;
  const double waited = now() - start;
  const std::string who = transport_.missing(call.number, base::format("{} of {}", call.operation, call.caller));
  const auto text = base::format("{} ({}, {}) in group {} has waited {:.0f} s on rank {}{}", call.operation,
                                 call.caller, base::bytes_text(static_cast<uint64_t>(call.bytes)), group_, waited,
                                 transport_.of_job(transport_.rank()), who.empty() ? "" : "; " + who);
  report_ ? report_(text) : base::log_warn(text);
}

}  // namespace hyperion::comm

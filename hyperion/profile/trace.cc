#include "hyperion/profile/trace.h"

#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "hyperion/base/error.h"

namespace hyperion::profile {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

// Nested operations of one thread: each keeps the stretches in which no inner one runs, so that no moment counts twice.
void add_own_stretches(std::vector<TracedSpan> operations, std::vector<TracedSpan>& out) {
  std::sort(operations.begin(), operations.end(), [](const TracedSpan& a, const TracedSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<const TracedSpan*> open;
  std::vector<bool> begun;  // whether it has had a stretch
  const auto add = [&](int64_t from, int64_t to) {
    out.push_back({open.back()->name, from, to, open.back()->stream, begun.back()});
    begun.back() = true;
  };
  int64_t at = 0;
  const auto close_until = [&](int64_t time) {
    while (!open.empty() && open.back()->end <= time) {
      if (open.back()->end > at || !begun.back()) add(std::min(at, open.back()->end), open.back()->end);
      at = std::max(at, open.back()->end);
      open.pop_back();
      begun.pop_back();
    }
  };
  for (const auto& operation : operations) {
    close_until(operation.begin);
    if (!open.empty() && operation.begin > at) add(at, operation.begin);
    at = operation.begin;
    open.push_back(&operation);
    begun.push_back(false);
  }
  close_until(INT64_MAX);
}

// Annotations and synchronization are drawn on the device too.
bool is_work(uint8_t activity) {
  using Kind = libkineto::ActivityType;
  const auto kind = static_cast<Kind>(activity);
  return kind == Kind::CONCURRENT_KERNEL || kind == Kind::GPU_MEMCPY || kind == Kind::GPU_MEMSET;
}

Trace read(const std::vector<kineto::KinetoEvent>& events, bool gpu) {
  Trace trace;
  std::map<uint64_t, std::vector<TracedSpan>> threads;
  for (const auto& event : events) {
    TracedSpan span{event.name(), static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.endNs()), 0};
    if (span.end < span.begin) continue;
    if (gpu && event.deviceType() == c10::DeviceType::CUDA) {
      if (!is_work(event.activityType())) continue;
      span.stream = event.deviceResourceId();
      trace.spans.push_back(std::move(span));
    } else if (!gpu && event.deviceType() == c10::DeviceType::CPU && !event.isHiddenEvent() && !event.isAsync()) {
      span.stream = static_cast<int64_t>(event.startThreadId());
      threads[event.startThreadId()].push_back(std::move(span));
    }
  }
  for (auto& [thread, operations] : threads) add_own_stretches(std::move(operations), trace.spans);
  std::sort(trace.spans.begin(), trace.spans.end(),
            [](const TracedSpan& a, const TracedSpan& b) { return a.begin < b.begin; });
  return trace;
}

}  // namespace

TraceRecorder::TraceRecorder(bool gpu) : gpu_(gpu) {
  ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);  // it complains of a missing GPU, and tells of each trace
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  // A GPU's kernels alone: recording every operation of the host would slow it down, and gaps would be the recorder's.
  const std::set<ActivityType> activities = {gpu ? ActivityType::CUDA : ActivityType::CPU};
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities, {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
}

TraceRecorder::~TraceRecorder() {
  if (running_) kineto::disableProfiler();
}

Trace TraceRecorder::end(const std::string& path) {
  HYPERION_CHECK(running_, "a recorder ends once");
  running_ = false;
  const auto result = kineto::disableProfiler();
  if (!path.empty()) result->save(path);
  return read(result->events(), gpu_);
}

}  // namespace hyperion::profile

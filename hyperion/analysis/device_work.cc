#include "hyperion/analysis/device_work.h"

#include <algorithm>
#include <set>

#include "hyperion/base/error.h"

namespace hyperion::analysis {
namespace {

struct Launch {
  int64_t correlation;
  int64_t begin;
};

// Calls on the host, by correlation; of several with one the last of the file stands last.
class Launches {
 public:
  void add(int64_t correlation, int64_t begin) { all_.push_back({correlation, begin}); }
  void close() {
    const auto less = [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; };
    if (!std::is_sorted(all_.begin(), all_.end(), less)) std::stable_sort(all_.begin(), all_.end(), less);
  }
  // From the first of this correlation on; spans come nearly in order, so the search begins where the last one ended.
  const Launch* find(int64_t correlation) {
    const auto less = [](const Launch& a, int64_t wanted) { return a.correlation < wanted; };
    auto from = all_.begin() + static_cast<std::ptrdiff_t>(last_);
    auto to = all_.end();
    if (from != to && from->correlation <= correlation) {
      if (to - from > 64 && from[64].correlation >= correlation) to = from + 64;
    } else {
      to = from;
      from = all_.begin();
    }
    while (from != all_.begin() && from[-1].correlation == correlation) --from;
    const auto found = std::lower_bound(from, to, correlation, less);
    last_ = static_cast<size_t>(found - all_.begin());
    return found != all_.end() && found->correlation == correlation ? &*found : nullptr;
  }
  bool is_end(const Launch* launch) const { return launch == all_.data() + all_.size(); }

 private:
  std::vector<Launch> all_;
  size_t last_ = 0;
};

struct Steps {
  int64_t count = 0, last_begin = trace::kNoTime, last_end = trace::kNoTime;
};

Steps steps_of(const trace::Trace& trace) {
  std::vector<bool> is_step(trace.names.size());
  for (uint32_t id = 0; id < is_step.size(); ++id)
    is_step[id] = trace.names[id].find("ProfilerStep") != std::string_view::npos;
  Steps steps;
  std::set<uint32_t> names;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.name[i] == trace::kNoString || !is_step[trace.name[i]] || trace.duration[i] < 0 ||
        trace.begin[i] == trace::kNoTime || is_device_work(trace.category(i)))
      continue;
    names.insert(trace.name[i]);
    steps.last_begin = std::max(steps.last_begin, trace.begin[i]);
    steps.last_end = std::max(steps.last_end, trace.end(i));
  }
  steps.count = static_cast<int64_t>(names.size());
  return steps;
}

}  // namespace

std::string_view kind_text(WorkKind kind) {
  switch (kind) {
    case WorkKind::computation:
      return "computation";
    case WorkKind::communication:
      return "communication";
    case WorkKind::memory:
      return "memory";
    case WorkKind::other:
      return "other";
  }
  return {};
}

WorkKind work_kind(std::string_view name) {
  name = name.substr(0, name.find('\n'));
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  if (name.starts_with("nccl") && has("Kernel")) return WorkKind::communication;
  if (name.starts_with("Memcpy") || name.starts_with("Memset") || name.starts_with("dma")) return WorkKind::memory;
  return has("Memcpy") || has("Sync") ? WorkKind::other : WorkKind::computation;
}

DeviceWork device_work(const trace::Trace& trace, const StepOptions& options) {
  const Steps steps = steps_of(trace);
  const bool some = steps.count > 1;
  std::vector<WorkKind> kinds(trace.names.size());
  for (uint32_t id = 0; id < kinds.size(); ++id) kinds[id] = work_kind(trace.names[id]);

  DeviceWork work;
  Launches launches;
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto category = trace.category(i);
    if (trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime) continue;
    if (is_device_work(category)) {
      const auto kind = trace.name[i] == trace::kNoString ? WorkKind::computation : kinds[trace.name[i]];
      work.spans.push_back({trace.begin[i], trace.end(i), trace::kNoTime, static_cast<uint32_t>(i), kind});
    } else if (category == trace::Category::runtime || category == trace::Category::driver) {
      const bool counts = options.include_last ? trace.begin[i] <= steps.last_end : trace.begin[i] < steps.last_begin;
      if (trace.correlation(i) != trace::kNone && (!some || counts)) launches.add(trace.correlation(i), trace.begin[i]);
    }
  }
  launches.close();
  const auto all = work.spans.size();
  work.steps = some && !options.include_last ? steps.count - 1 : steps.count;
  size_t kept = 0;
  for (auto& span : work.spans) {
    const auto correlation = trace.correlation(span.event);
    const Launch* launch = correlation == trace::kNone ? nullptr : launches.find(correlation);
    if (launch == nullptr && some) continue;
    if (launch != nullptr) {
      while (!launches.is_end(launch + 1) && launch[1].correlation == correlation) ++launch;
      span.launched = launch->begin;
    }
    work.spans[kept++] = span;
  }
  work.spans.resize(kept);
  work.left_out = static_cast<int64_t>(all - kept);
  const auto earlier = [](const DeviceSpan& a, const DeviceSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.event < b.event;
  };
  if (!std::is_sorted(work.spans.begin(), work.spans.end(), earlier))
    std::sort(work.spans.begin(), work.spans.end(), earlier);
  return work;
}

}  // namespace hyperion::analysis

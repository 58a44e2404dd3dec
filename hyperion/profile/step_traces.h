// Traces of a run's own steps: recorded by LibTorch's profiler (kineto) and by the program's spans, and written by a
// thread of their own while the run goes on.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "hyperion/profile/span.h"
#include "hyperion/profile/trace_plan.h"

namespace hyperion::profile {

// Of which process a trace is.
struct TraceOwner {
  int rank = 0, world = 1;
  std::string backend;  // "nccl"; empty: it is alone
};

// What was recorded of some steps.
struct StepTrace {
  TraceOwner owner;
  int64_t first = 0, last = 0;
  std::string kineto;        // the file that kineto wrote, which whoever takes the trace removes
  RecordedSpans spans;       // of the monotonic clock
  int64_t clock_offset = 0;  // nanoseconds from that clock to that of 1970
  bool pattern = false;      // of a step before its recording as a graph: see record_pattern()
};

class StepTraces {
 public:
  struct Options {
    TracePlan plan;
    TraceOwner owner;
    bool gpu = false;
    std::function<void()> wait;                   // until the device has done what is queued
    std::function<std::string(int64_t)> scratch;  // where kineto is to write the trace that begins with this step
    std::function<void(StepTrace)> write;         // in a thread of its own; what it throws is told as a warning
  };
  explicit StepTraces(Options options);
  ~StepTraces();  // what is being recorded is thrown away, and what is being written is waited for
  StepTraces(const StepTraces&) = delete;
  StepTraces& operator=(const StepTraces&) = delete;

  void also(const TracePlan& plan);  // beside the plan, once, in steps that it leaves free
  // A step that runs one operation at a time before it is recorded as a graph, whose kernels will be in its order: a
  // trace of its own. Where a trace is under way it is only run. In the thread that queues it.
  void record_pattern(const std::function<void()>& step);
  // Around each step, in the thread that queues it.
  void before(int64_t step);
  void after(int64_t step);
  // After the run's last step: what was recorded so far is a trace too.
  void finish();

 private:
  void end_recording();
  class Recording;
  void write(Recording& recording, bool pattern);
  Options options_;
  TracePlan asked_;
  int64_t last_ = 0;                   // step that was recorded
  const TracePlan* active_ = nullptr;  // whose steps are under way
  std::unique_ptr<Recording> recording_;
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace hyperion::profile

#include "hyperion/profile/step_traces.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

// Declared in a header of LibTorch that needs kineto's own.
namespace torch::autograd::profiler {
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}

namespace hyperion::profile {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

torch::profiler::impl::ProfilerConfig kineto_config(bool memory) {
  // Shapes are left out: a run's are the same in every step, and each would cost more than the operation's name.
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO,
                                               /*report_input_shapes=*/false, memory);
}

std::set<ActivityType> activities(bool gpu) {
  return gpu ? std::set{ActivityType::CPU, ActivityType::CUDA} : std::set{ActivityType::CPU};
}

template <class Clock>
int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

// From the first traced step to the last.
class StepTraces::Recording {
 public:
  Recording(bool gpu, bool memory, int64_t first) : first_(first) {
    kineto::enableProfiler(
        kineto_config(memory), activities(gpu),
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
    spans_.emplace();
  }
  ~Recording() {
    step_.reset();
    if (running_) kineto::disableProfiler();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // As torch.profiler marks them, which others' tools look for.
  void begin_step(int64_t step) {
    step_.emplace(at::RecordScope::USER_SCOPE);
    if (step_->isActive()) step_->before(base::format("ProfilerStep#{}", step));
  }
  void end_step() { step_.reset(); }

  struct Recorded {
    int64_t first;
    std::unique_ptr<kineto::ProfilerResult> events;
    RecordedSpans spans;
  };
  Recorded end() {
    running_ = false;
    auto events = kineto::disableProfiler();
    auto spans = spans_->take();
    spans_.reset();
    return {first_, std::move(events), std::move(spans)};
  }

 private:
  int64_t first_;
  bool running_ = true;
  std::optional<SpanRecorder> spans_;
  std::optional<at::RecordFunction> step_;
};

class StepTraces::Writer {
 public:
  Writer(Recording::Recorded recorded, StepTrace trace, const std::function<void(StepTrace)>& write)
      : thread_([recorded = std::move(recorded), trace = std::move(trace), write]() mutable {
          try {
            recorded.events->save(trace.kineto);
            recorded.events.reset();
            trace.spans = std::move(recorded.spans);
            write(std::move(trace));
          } catch (const std::exception& error) {
            base::log_warn(
                base::format("the trace of steps {} to {} was not written: {}", trace.first, trace.last, error.what()));
          }
        }) {}
  ~Writer() { thread_.join(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

 private:
  std::thread thread_;
};

StepTraces::StepTraces(Options options) : options_(std::move(options)) {
  ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);  // it complains of a missing GPU, and tells of each trace
}
StepTraces::~StepTraces() = default;

void StepTraces::also(const TracePlan& plan) { asked_ = plan; }

void StepTraces::record_pattern(const std::function<void()>& step) {
  if (recording_ || active_ != nullptr) return step();
  kineto::prepareProfiler(kineto_config(/*memory=*/false), activities(options_.gpu));
  options_.wait();
  Recording pattern(options_.gpu, /*memory=*/false, 0);
  step();
  options_.wait();
  write(pattern, /*pattern=*/true);
}

void StepTraces::before(int64_t step) {
  if (active_ == nullptr)
    for (const auto* plan : {&options_.plan, &asked_})
      if (active_ == nullptr && plan->at(step).part != TracePlan::Part::none) active_ = plan;
  if (active_ == nullptr) return;
  const auto place = active_->at(step);
  const bool warms = place.part == TracePlan::Part::warm_up;
  if (place.begins && (warms || active_->warm_up == 0))
    kineto::prepareProfiler(kineto_config(active_->memory), activities(options_.gpu));
  if (warms) return;
  if (!recording_) {  // also where a run goes on in the middle of a part
    if (!place.begins) kineto::prepareProfiler(kineto_config(active_->memory), activities(options_.gpu));
    options_.wait();
    recording_ = std::make_unique<Recording>(options_.gpu, active_->memory, step);
    const auto& owner = options_.owner;
    nlohmann::json job = {{"rank", owner.rank}, {"world_size", owner.world}};
    if (!owner.backend.empty()) job["backend"] = owner.backend;
    kineto::addMetadataJson("distributedInfo", job.dump());
  }
  recording_->begin_step(step);
}

void StepTraces::after(int64_t step) {
  if (!recording_) return;
  recording_->end_step();
  last_ = step;
  if (active_->at(step).ends) end_recording();
}

void StepTraces::finish() {
  if (!recording_) return;
  if (options_.owner.rank == 0)
    base::log_info(base::format("the trace that was being recorded ends with the run, after step {}", last_));
  end_recording();
}

void StepTraces::end_recording() {
  if (active_ == &asked_) asked_ = {};
  active_ = nullptr;
  options_.wait();
  const auto ended = std::exchange(recording_, nullptr);
  write(*ended, /*pattern=*/false);
}

void StepTraces::write(Recording& recording, bool pattern) {
  auto recorded = recording.end();
  writer_.reset();  // waits for the last one
  StepTrace trace{options_.owner, recorded.first, last_, options_.scratch(recorded.first), {}};
  trace.pattern = pattern;
  trace.clock_offset = nanoseconds<std::chrono::system_clock>() - nanoseconds<std::chrono::steady_clock>();
  writer_ = std::make_unique<Writer>(std::move(recorded), std::move(trace), options_.write);
}

}  // namespace hyperion::profile

#include "hyperion/parallel/pipeline_times.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "hyperion/base/clock.h"

namespace hyperion::parallel {

PipelineTimes::Moment PipelineTimes::now() const {
  Moment moment;
  if (device_.is_cpu()) {
    moment.seconds = base::now();
  } else {
    moment.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    moment.event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  return moment;
}

double PipelineTimes::since_begin(const Moment& moment) const {
  if (device_.is_cpu()) return moment.seconds - begin_.seconds;
  return begin_.event->elapsedTime(*moment.event) / 1e3;
}

void PipelineTimes::settle() const {
  if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
}

void PipelineTimes::begin() {
  work_.clear();
  begin_ = now();
}

void PipelineTimes::start(size_t instruction) { work_.push_back({instruction, now(), {}}); }

void PipelineTimes::stop() { work_.back().end = now(); }

std::vector<strategy::TimedWork> PipelineTimes::read() const {
  std::vector<strategy::TimedWork> list;
  if (!work_.empty() && work_.back().end.event) work_.back().end.event->synchronize();
  for (const auto& [instruction, begin, end] : work_)
    list.push_back({instruction, since_begin(begin), since_begin(end)});
  return list;
}

}  // namespace hyperion::parallel

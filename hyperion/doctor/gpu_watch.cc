#include "hyperion/doctor/gpu_watch.h"

#include <algorithm>
#include <array>

#include "hyperion/base/clock.h"

namespace hyperion::doctor {
namespace {

struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(std::optional<double> value) {
    if (value) sum += *value, ++count;
  }
  std::optional<double> value() const { return count == 0 ? std::nullopt : std::optional(sum / double(count)); }
};

}  // namespace

struct GpuWatch::Sums {
  Mean clock, temperature, busy, power;
  std::array<int64_t, 4> slowed = {};  // how often, by host::Slowed
  int64_t readings = 0;
  std::optional<double> energy;  // of the last reading
  double time = 0;               // of it

  // What was used since the last reading, where the library counts it; else what it says of now.
  std::optional<double> power_of(const host::GpuVitals& vitals, double now) const {
    if (!energy || !vitals.energy || *vitals.energy <= *energy || now <= time) return vitals.power;
    return (*vitals.energy - *energy) / (now - time);
  }
};

GpuWatch::GpuWatch(std::unique_ptr<host::GpuReader> reader, std::chrono::milliseconds period)
    : reader_(std::move(reader)), sums_(std::make_unique<Sums>()) {
  read();
  thread_ = std::thread([this, period] { loop(period); });
}

GpuWatch::~GpuWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void GpuWatch::loop(std::chrono::milliseconds period) {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, period, [this] { return ends_; })) {
    lock.unlock();
    read();
    lock.lock();
  }
}

void GpuWatch::read() {
  const auto vitals = reader_->read();
  const double now = base::now();
  const std::lock_guard lock(mutex_);
  ++sums_->readings;
  sums_->clock.add(vitals.clock), sums_->temperature.add(vitals.temperature), sums_->busy.add(vitals.busy);
  sums_->power.add(sums_->power_of(vitals, now));
  if (vitals.slowed) ++sums_->slowed[static_cast<size_t>(*vitals.slowed)];
  sums_->energy = vitals.energy, sums_->time = now;
}

GpuDigest GpuWatch::since_last() {
  const std::lock_guard lock(mutex_);
  if (sums_->readings == 0) return told_;
  told_ = {sums_->clock.value(), sums_->temperature.value(), sums_->busy.value(), sums_->power.value(), std::nullopt};
  const auto most = std::max_element(sums_->slowed.begin(), sums_->slowed.end());
  if (*most > 0) told_.slowed = static_cast<host::Slowed>(most - sums_->slowed.begin());
  const auto energy = sums_->energy;
  const double time = sums_->time;
  *sums_ = {};
  sums_->energy = energy, sums_->time = time;
  return told_;
}

}  // namespace hyperion::doctor

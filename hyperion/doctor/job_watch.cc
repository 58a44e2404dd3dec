#include "hyperion/doctor/job_watch.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/doctor/comm_job.h"
#include "hyperion/doctor/links.h"

namespace hyperion::doctor {
namespace {

constexpr int64_t kMessage = 64 << 10;
constexpr double kTolerance = 5;  // on cores that are busy besides

// A clock in MHz and what slows it, as one number; 0: not known.
constexpr int64_t kSlowedUnit = int64_t{1} << 32;
int64_t packed(const GpuDigest& gpu) {
  if (!gpu.clock) return 0;
  return std::llround(*gpu.clock) + kSlowedUnit * static_cast<int64_t>(gpu.slowed.value_or(host::Slowed::nothing));
}

// What this rank's GPU does that those of its like do not.
std::string gpu_text(const std::vector<int64_t>& gpus, size_t rank) {
  constexpr double kLower = 0.97;
  std::vector<int64_t> others;
  for (size_t i = 0; i < gpus.size(); ++i)
    if (i != rank && gpus[i] != 0) others.push_back(gpus[i] % kSlowedUnit);
  if (gpus[rank] == 0 || others.empty()) return {};
  std::nth_element(others.begin(), others.begin() + std::ssize(others) / 2, others.end());
  const int64_t own = gpus[rank] % kSlowedUnit, usual = others[others.size() / 2];
  if (static_cast<double>(own) > kLower * static_cast<double>(usual)) return {};
  const auto slowed = static_cast<host::Slowed>(gpus[rank] / kSlowedUnit);
  return base::format("its GPU runs at {} MHz, others at {}{}{}", own, usual,
                      slowed == host::Slowed::nothing ? "" : "; what slows it is ",
                      slowed == host::Slowed::nothing ? "" : host::slowed_text(slowed));
}

}  // namespace

JobWatch::JobWatch(const std::vector<int>& kinds, std::unique_ptr<host::GpuReader> gpu) : slow_(kinds) {
  if (gpu) gpu_watch_.emplace(std::move(gpu));
}

void JobWatch::begin(double waited) {
  begun_ = base::now(), waited_ = waited, stopped_before_ = stopped_.seconds();
  fresh_ = false;
}

void JobWatch::has_input() { input_ = base::now() - begun_; }

void JobWatch::end(double waited) {
  last_ = {base::now() - begun_, input_, waited - waited_, stopped_.seconds() - stopped_before_};
  if (gpu_watch_) gpu_ = gpu_watch_->since_last();
  fresh_ = true;
}

JobWatch::Told JobWatch::told() {
  if (!fresh_) return {};
  fresh_ = false;
  const auto micro = [](double seconds) { return std::llround(1e6 * seconds); };
  return {std::max<int64_t>(micro(last_.step), 1), micro(last_.input), micro(last_.waited), micro(last_.stopped),
          packed(gpu_)};
}

std::vector<SlowRank> JobWatch::add(const std::vector<Told>& all) {
  std::vector<StepDigest> step;
  std::vector<int64_t> gpus;
  for (const auto& [whole, input, waited, stopped, gpu] : all) {
    if (whole == 0) return {};  // the first step, or the first after a pause
    const auto seconds = [](int64_t micro) { return 1e-6 * static_cast<double>(micro); };
    step.push_back({seconds(whole), seconds(input), seconds(waited), seconds(stopped)});
    gpus.push_back(gpu);
  }
  auto found = slow_.add(step);
  for (auto& slow : found)
    if (slow.cause == SlowCause::compute && slow.rank >= 0)
      slow.beside = gpu_text(gpus, static_cast<size_t>(slow.rank));
  return found;
}

std::optional<SlowRank> JobWatch::look_at_links(comm::Group& group, comm::Group& control, c10::Device device) {
  SlowRank found{-1, SlowCause::links, slow_.lost_to_links()};
  if (group.size() == 2) {
    slow_.looked_at_links(false);
    found.beside = "between ranks 0 and 1";
    return found;
  }
  const auto hosts = control.gather_text(host_name(), "links");
  const auto links = measure_links({.group = group,
                                    .control = control,
                                    .device = device,
                                    .bytes = kMessage,
                                    .hosts = hosts,
                                    .tolerance = kTolerance,
                                    .latency_rounds = 12,
                                    .bandwidth_rounds = 4,
                                    .alone = false},
                                   [](int64_t, int64_t) {});
  const auto faults = find_link_faults(links, hosts, kTolerance);
  if (faults.empty()) {
    slow_link_ = -1;
    slow_.looked_at_links(false);
    return std::nullopt;
  }
  // The rank that is an end of most of them.
  std::vector<int> ends(hosts.size());
  for (const auto& fault : faults)
    ++ends[static_cast<size_t>(links[fault.link].from)], ++ends[static_cast<size_t>(links[fault.link].to)];
  found.rank = static_cast<int>(std::max_element(ends.begin(), ends.end()) - ends.begin());
  const bool sure = found.rank == slow_link_;
  slow_link_ = sure ? -1 : found.rank;
  slow_.looked_at_links(!sure);
  if (!sure) return std::nullopt;
  found.beside = link_fault_texts(faults, links, hosts).front();
  return found;
}

}  // namespace hyperion::doctor

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

}  // namespace

void JobWatch::begin(double waited) {
  begun_ = base::now(), waited_ = waited, stopped_before_ = stopped_.seconds();
  fresh_ = false;
}

void JobWatch::has_input() { input_ = base::now() - begun_; }

void JobWatch::end(double waited) {
  last_ = {base::now() - begun_, input_, waited - waited_, stopped_.seconds() - stopped_before_};
  fresh_ = true;
}

JobWatch::Told JobWatch::told() {
  if (!fresh_) return {};
  fresh_ = false;
  const auto micro = [](double seconds) { return std::llround(1e6 * seconds); };
  return {std::max<int64_t>(micro(last_.step), 1), micro(last_.input), micro(last_.waited), micro(last_.stopped)};
}

std::vector<SlowRank> JobWatch::add(const std::vector<Told>& all) {
  std::vector<StepDigest> step;
  for (const auto& [whole, input, waited, stopped] : all) {
    if (whole == 0) return {};  // the first step, or the first after a pause
    const auto seconds = [](int64_t micro) { return 1e-6 * static_cast<double>(micro); };
    step.push_back({seconds(whole), seconds(input), seconds(waited), seconds(stopped)});
  }
  return slow_.add(step);
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

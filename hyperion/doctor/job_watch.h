// Watches a job while it trains: where each step of this rank went, what the others tell of theirs, and which rank,
// link or input holds them up. All ranks make the same calls.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/doctor/gpu_watch.h"
#include "hyperion/doctor/slow_ranks.h"
#include "hyperion/profile/stopped_time.h"

namespace hyperion::doctor {

class JobWatch {
 public:
  // `kinds`: as SlowRanks has them; `gpu`: this process's, null where it has none.
  explicit JobWatch(const std::vector<int>& kinds, std::unique_ptr<host::GpuReader> gpu = nullptr);

  // Around a step, with what this rank has waited for others since its start, in seconds.
  void begin(double waited);
  void has_input();
  void end(double waited);
  const StepDigest& last() const { return last_; }  // of the last step
  const GpuDigest& gpu() const { return gpu_; }     // likewise

  // As it travels, and as it arrives: microseconds, and the GPU's clock with what slows it. Of a rank without a last
  // step nothing but zeros.
  using Told = std::array<int64_t, 5>;
  Told told();
  // Of all ranks, of the same step. What is found then is new.
  std::vector<SlowRank> add(const std::vector<Told>& all);
  const std::vector<SlowRank>& now() const { return slow_.now(); }

  // Between steps, by all ranks: the links are measured pair by pair, a moment's work. Nothing where none is slow, or
  // where it is not the one that was slow some steps before.
  bool suspects_links() const { return slow_.suspects_links(); }
  std::optional<SlowRank> look_at_links(comm::Group& group, comm::Group& control, c10::Device device);

 private:
  SlowRanks slow_;
  profile::StoppedTime stopped_;
  std::optional<GpuWatch> gpu_watch_;
  StepDigest last_;
  GpuDigest gpu_;
  int slow_link_ = -1;  // a rank whose links were slow when they were last looked at
  bool fresh_ = false;
  double begun_ = 0, input_ = 0, waited_ = 0, stopped_before_ = 0;
};

}  // namespace hyperion::doctor

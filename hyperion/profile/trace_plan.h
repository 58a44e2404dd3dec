// When a run records traces, as train.profile says it.
#pragma once
#include <cstdint>
#include <string>

namespace hyperion::profile {

// "1+3@100": a step of warm-up from step 100 on, then three that are traced; with ",every=1000" again 1000 steps later,
// and so on. "3" alone: the first three steps of the run. ",memory": with all that is allocated.
struct TracePlan {
  int64_t warm_up = 0, steps = 0, first = 1, every = 0;  // steps 0: no traces; every 0: once
  bool memory = false;

  // Throws ConfigError, naming the setting, where it is none.
  static TracePlan parse(const std::string& text, const std::string& setting);

  enum class Part { none, warm_up, traced };
  struct Place {
    Part part = Part::none;
    bool begins = false, ends = false;  // the first, the last of that part
  };
  // The first step from this one on at which so many lie outside of the plan's; 0: there never are so many.
  int64_t next_free(int64_t from, int64_t length) const;
  Place at(int64_t step) const;
};

}  // namespace hyperion::profile

// Whether a job that failed is started again, and when. Knows no processes and no clock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "hyperion/resilience/job.h"

namespace hyperion::resilience {

struct RestartSettings {
  int most = 0;           // restarts in all; 0: the first failure ends the job
  double first_wait = 1;  // seconds until the job is started again; doubles while it gets no further
  double longest_wait = 60;
};

// How far the job's run is on disk.
struct Standing {
  int64_t saved = 0;    // the newest complete checkpoint's step; 0: none, it begins anew
  int64_t reached = 0;  // the last step that was told of
};

class RestartPolicy {
 public:
  explicit RestartPolicy(RestartSettings settings) : settings_(settings) {}

  struct Decision {
    bool again = false;
    double wait = 0;      // seconds
    std::string why_not;  // empty: there is nothing to add
  };
  // After a start of the job that failed. `standing`: none where the job is no run's.
  Decision after(const JobEnd& end, const std::optional<Standing>& standing);
  int restarts() const { return restarts_; }  // decided so far

 private:
  RestartSettings settings_;
  int restarts_ = 0;
  int vain_ = -1;  // failures since the one after which the job had got further; -1: there was none
  int alike_ = 0;  // of these, the last ones that ended with the same code
  int last_code_ = 0;
  Standing furthest_{-1, -1};
};

}  // namespace hyperion::resilience

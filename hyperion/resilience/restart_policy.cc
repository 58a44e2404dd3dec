#include "hyperion/resilience/restart_policy.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/format.h"

namespace hyperion::resilience {
namespace {

using base::format;

constexpr int kUsage = 2;           // exit code: what was asked for cannot be, and nobody changes it meanwhile
constexpr int kMostAlike = 3;       // failures at one step, with one exit code
constexpr double kLongEnough = 60;  // seconds that a job without steps must have run to have got further

}  // namespace

RestartPolicy::Decision RestartPolicy::after(const JobEnd& end, const std::optional<Standing>& standing) {
  if (end.code == kUsage) return {false, 0, "it is not started again: what it was asked to do has to be changed first"};
  const bool further = standing ? standing->reached > furthest_.reached || standing->saved > furthest_.saved
                                : end.seconds >= kLongEnough;
  if (standing)
    furthest_ = {std::max(furthest_.saved, standing->saved), std::max(furthest_.reached, standing->reached)};
  vain_ = further ? 0 : vain_ + 1;
  alike_ = !further && end.code == last_code_ ? alike_ + 1 : 1;
  last_code_ = end.code;
  if (standing && alike_ >= kMostAlike)
    return {false, 0,
            format("it failed {} times in a row with exit code {} and got no further than step {}: given up", alike_,
                   end.code, furthest_.reached)};
  if (restarts_ >= settings_.most)
    return {false, 0,
            format("it was started again {} {}, as often as --restarts allows: given up", restarts_,
                   restarts_ == 1 ? "time" : "times")};
  ++restarts_;
  return {true, std::min(settings_.longest_wait, settings_.first_wait * std::exp2(std::min(vain_, 30))), ""};
}

}  // namespace hyperion::resilience

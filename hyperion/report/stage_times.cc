#include "hyperion/report/stage_times.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/json.h"

namespace hyperion::report {

using base::Json;

std::string to_json(const std::vector<strategy::TimedWork>& times) {
  Json list = Json::array();
  for (const auto& [instruction, begin, end] : times) list.push_back({instruction, begin, end});
  return list.dump();
}

strategy::PlanWalk read_walk(const strategy::Plan& plan, const std::vector<std::string>& told) {
  std::vector<std::vector<strategy::TimedWork>> ranks;
  for (const auto& text : told) {
    auto& times = ranks.emplace_back();
    for (const auto& work : base::parse_json(text, "times of a pipeline"))
      times.push_back({work.at(0).get<size_t>(), work.at(1).get<double>(), work.at(2).get<double>()});
  }
  return strategy::walk_of(plan, ranks);
}

}  // namespace hyperion::report

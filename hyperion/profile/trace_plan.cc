#include "hyperion/profile/trace_plan.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::profile {
namespace {

// What stands before the separator, and leaves the rest; all where there is none.
std::string_view cut(std::string_view& rest, std::string_view separator) {
  const size_t at = rest.find(separator);
  const auto part = rest.substr(0, at);
  rest = at == rest.npos ? std::string_view() : rest.substr(at + separator.size());
  return part;
}

bool read(std::string_view text, int64_t least, int64_t& number) {
  constexpr int64_t kMost = 1'000'000'000;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least && number <= kMost;
}

}  // namespace

TracePlan TracePlan::parse(const std::string& text, const std::string& setting) {
  TracePlan plan;
  if (text.empty()) return plan;
  const auto refuse = [&](const std::string& why) {
    throw base::ConfigError(
        base::format("{} = \"{}\": {}", setting, text, why),
        "say WARM_UP+STEPS@FIRST, as \"1+3@100\", with \",every=1000\" to have it again and again, \",memory\" with "
        "all that is allocated");
  };
  std::string_view rest = text;
  std::string_view counts = cut(rest, ",");
  if (text.ends_with(',')) refuse("nothing stands behind the comma");
  while (!rest.empty()) {
    auto value = cut(rest, ",");
    const auto word = cut(value, "=");
    if ((word == "memory" && plan.memory) || (word == "every" && plan.every > 0))
      refuse(base::format("{} stands there twice", word));
    if (word == "memory" && value.empty())
      plan.memory = true;
    else if (word != "every" || !read(value, 1, plan.every))
      refuse("behind the comma stands every=N, of 1 step or more, or memory");
  }
  const bool at = counts.find('@') != counts.npos;
  std::string_view place = counts;
  counts = cut(place, "@");
  if (at && !read(place, 1, plan.first)) refuse("behind the @ stands a step, from 1 on");
  if (counts.find('+') != counts.npos) {
    if (!read(cut(counts, "+"), 0, plan.warm_up)) refuse("before the + stands a number of steps");
  }
  if (!read(counts, 1, plan.steps)) refuse("there is no number of steps to trace, from 1 to 1000000000");
  if (plan.every > 0 && plan.every < plan.warm_up + plan.steps)
    refuse(base::format("{} steps do not fit into {}", plan.warm_up + plan.steps, plan.every));
  return plan;
}

int64_t TracePlan::next_free(int64_t from, int64_t length) const {
  const int64_t taken = warm_up + steps;
  if (steps == 0 || from + length <= first) return from;
  if (every == 0) return std::max(from, first + taken);
  if (every - taken < length) return 0;
  const int64_t number = from < first ? 0 : (from - first) % every, begin = from < first ? first : from - number;
  if (number < taken) return begin + taken;
  return number + length <= every ? from : begin + every + taken;
}

TracePlan::Place TracePlan::at(int64_t step) const {
  if (steps == 0 || step < first) return {};
  const int64_t number = every > 0 ? (step - first) % every : step - first;
  if (number < warm_up) return {Part::warm_up, number == 0, number + 1 == warm_up};
  const int64_t traced = number - warm_up;
  if (traced >= steps) return {};
  return {Part::traced, traced == 0, traced + 1 == steps};
}

}  // namespace hyperion::profile

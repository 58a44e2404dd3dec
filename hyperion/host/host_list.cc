#include "hyperion/host/host_list.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

constexpr int64_t kMostHosts = 1 << 20;

[[noreturn]] void refuse(std::string_view list) {
  throw base::ConfigError(base::format("cannot read the host list \"{}\"", list),
                          "SLURM_JOB_NODELIST has the form gpu[01-04,07],login1");
}

// Parts between the commas that lie outside brackets.
std::vector<std::string> outer_parts(std::string_view list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) refuse(list);
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (depth != 0) refuse(list);
  return parts;
}

// "08-10,12" with its leading zeros kept.
std::vector<std::string> numbers(std::string_view ranges, std::string_view list) {
  std::vector<std::string> found;
  for (const std::string& range : split(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string low = range.substr(0, dash), high = dash == std::string::npos ? low : range.substr(dash + 1);
    const auto first = whole_number(low), last = whole_number(high);
    if (!first || !last || *first < 0 || *last < *first || *last - *first >= kMostHosts) refuse(list);
    for (int64_t number = *first; number <= *last; ++number)
      found.push_back(base::format("{:0{}}", number, static_cast<int>(low.size())));
  }
  if (found.empty()) refuse(list);
  return found;
}

// A part may hold several brackets: "rack[1-2]node[1-4]".
void expand_part(const std::string& prefix, std::string_view rest, std::string_view list,
                 std::vector<std::string>& hosts) {
  const size_t open = rest.find('['), close = rest.find(']');
  if (open == std::string_view::npos) {
    hosts.push_back(prefix + std::string(rest));
    if (hosts.size() > static_cast<size_t>(kMostHosts)) refuse(list);
    return;
  }
  for (const std::string& number : numbers(rest.substr(open + 1, close - open - 1), list))
    expand_part(base::format("{}{}{}", prefix, rest.substr(0, open), number), rest.substr(close + 1), list, hosts);
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string& part : outer_parts(list)) {
    if (part.empty()) refuse(list);
    expand_part("", part, list, hosts);
  }
  return hosts;
}

}  // namespace hyperion::host

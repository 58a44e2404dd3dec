#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/comm.h"
#include "hyperion/bench/figures.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr size_t kShownRanks = 16, kShownLinks = 10;

// From each rank (down) to each (across).
template <class Cell>
std::string matrix(const char* title, const doctor::CommCheckResult& result, const Cell& cell) {
  std::vector<std::vector<std::string>> rows = {{title}};
  for (size_t rank = 0; rank < result.hosts.size(); ++rank) {
    rows[0].push_back(format("to {}", rank));
    rows.push_back({format("  from {}", rank)});
    rows.back().resize(result.hosts.size() + 1);
  }
  for (const auto& link : result.links)
    rows[static_cast<size_t>(link.from) + 1][static_cast<size_t>(link.to) + 1] = cell(link);
  return "\n" + aligned(rows);
}

std::string links_text(const doctor::CommCheckResult& result) {
  if (result.links.empty()) return {};
  std::string text;
  const auto message = base::bytes_text(static_cast<uint64_t>(result.message));
  if (result.hosts.size() <= kShownRanks) {
    text += matrix("latency us", result, [](const doctor::Link& link) { return format("{:.1f}", 1e6 * link.latency); });
    text += matrix("bandwidth GB/s", result,
                   [](const doctor::Link& link) { return format("{:.3f}", link.bandwidth / 1e9); });
    return text + format("pair by pair, messages of {}\n", message);
  }
  auto slowest = result.links;
  std::sort(slowest.begin(), slowest.end(),
            [](const doctor::Link& a, const doctor::Link& b) { return a.bandwidth < b.bandwidth; });
  std::vector<std::vector<std::string>> rows = {{"slowest links", "bandwidth", "latency"}};
  for (size_t i = 0; i < std::min(kShownLinks, slowest.size()); ++i)
    rows.push_back({format("  {} to {}", slowest[i].from, slowest[i].to), doctor::rate_text(slowest[i].bandwidth),
                    doctor::time_text(slowest[i].latency)});
  return format("\n{}of {} links, messages of {}\n", aligned(rows), slowest.size(), message);
}

std::string verdict(const doctor::CommCheckResult& result) {
  if (result.faults.empty()) return format("\nall is well ({:.1f} s)\n", result.seconds);
  std::string text = format("\n{} {} ({:.1f} s)\n", result.faults.size(),
                            result.faults.size() == 1 ? "fault" : "faults", result.seconds);
  for (const auto& fault : result.faults) text += "fault: " + fault + "\n";
  return text;
}

}  // namespace

Outcome comm_check_outcome(const doctor::CommCheckResult& result) {
  const int ranks = static_cast<int>(result.hosts.size());
  Outcome outcome{"comm_check", {}, {}, {}, {}};
  outcome.table =
      result.job + "\n" + aligned(collective_table(result.rows, ranks), {0, 3}) + links_text(result) + verdict(result);
  outcome.csv = "from,to,latency_s,bandwidth,wrong\n";
  Figures figures{"comm-check", result.job, {}};
  for (const auto& row : result.rows)
    figures.list.push_back(time_figure(format("{} {} B", row.name, row.bytes), "us", row.seconds, 1e6));
  base::Json links = base::Json::array();
  for (const auto& link : result.links) {
    outcome.csv += format("{},{},{:.6g},{:.6g},{}\n", link.from, link.to, link.latency, link.bandwidth, link.wrong);
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"latency_s", link.latency},
                     {"bandwidth", link.bandwidth},
                     {"wrong", link.wrong}});
  }
  auto json = result_json(figures);
  json.update({{"ranks", ranks},
               {"hosts", result.hosts},
               {"links", std::move(links)},
               {"faults", result.faults},
               {"seconds", result.seconds}});
  outcome.json = json.dump(2) + "\n";
  return outcome;
}

}  // namespace hyperion::bench

#include "hyperion/host/cores.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

constexpr int64_t kMostCores = 1 << 18;

std::map<int, int> node_of_core(const base::Path& root) {
  std::map<int, int> node_of;
  const std::string online = system_text(root, "/sys/devices/system/node/online").value_or("");
  for (const int node : listed_numbers(online)) {
    const std::string list = base::format("/sys/devices/system/node/node{}/cpulist", node);
    for (const int core : listed_numbers(system_text(root, list).value_or(""))) node_of[core] = node;
  }
  return node_of;
}

// The lowest core of those that share one physical core; the core itself where nothing is told.
int first_sibling(const base::Path& root, int core) {
  const std::string file = base::format("/sys/devices/system/cpu/cpu{}/topology/core_cpus_list", core);
  const auto siblings = listed_numbers(system_text(root, file).value_or(""));
  return siblings.empty() ? core : siblings.front();
}

}  // namespace

std::vector<int> listed_numbers(std::string_view list) {
  std::vector<int> numbers;
  for (const std::string& part : split(list, ',')) {
    const size_t dash = part.find('-');
    const auto first = whole_number(part.substr(0, dash));
    const auto last = dash == part.npos ? first : whole_number(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMostCores) continue;
    for (int64_t number = *first; number <= *last; ++number) numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

std::vector<int> allowed_cores() {
  // The fixed cpu_set_t holds 1024 processors; larger machines refuse it, so it grows until the kernel is content.
  for (int most = 1024; most <= kMostCores; most *= 2) {
    cpu_set_t* set = CPU_ALLOC(most);
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> cores;
    for (int core = 0; known && core < most; ++core)
      if (CPU_ISSET_S(core, bytes, set)) cores.push_back(core);
    CPU_FREE(set);
    if (known) return cores;
  }
  return {};
}

std::vector<std::vector<int>> share_cores(const base::Path& root, std::vector<int> cores, int processes) {
  const size_t count = static_cast<size_t>(std::max(processes, 1));
  if (cores.size() < count) return {};
  auto nodes = node_of_core(root);
  std::map<int, int> first;
  for (const int core : cores) first[core] = first_sibling(root, core);
  std::sort(cores.begin(), cores.end(),
            [&](int a, int b) { return std::tuple(nodes[a], first[a], a) < std::tuple(nodes[b], first[b], b); });
  std::vector<std::vector<int>> shares(count);
  for (size_t i = 0; i < cores.size(); ++i) shares[i * count / cores.size()].push_back(cores[i]);
  return shares;
}

}  // namespace hyperion::host

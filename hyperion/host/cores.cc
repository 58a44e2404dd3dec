#include "hyperion/host/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

std::vector<std::vector<int>> share_cores_by_node(const base::Path& root, const std::vector<int>& cores,
                                                  const std::vector<int>& nodes) {
  auto node_of = node_of_core(root);
  std::vector<std::vector<int>> shares(nodes.size());
  for (const int node : nodes) {
    std::vector<int> here;
    for (const int core : cores)
      if (node >= 0 && node_of.count(core) != 0 && node_of[core] == node) here.push_back(core);
    const auto of_node = share_cores(root, here, static_cast<int>(std::count(nodes.begin(), nodes.end(), node)));
    if (of_node.empty()) return {};
    for (size_t i = 0, next = 0; i < nodes.size(); ++i)
      if (nodes[i] == node) shares[i] = of_node[next++];
  }
  return shares;
}

const char* visible_devices() {
  const char* told = std::getenv("CUDA_VISIBLE_DEVICES");
  return told != nullptr ? told : std::getenv("HIP_VISIBLE_DEVICES");
}

std::vector<int> gpu_nodes(const base::Path& root, const char* visible) {
  constexpr const char* kDevices = "/sys/bus/pci/devices";
  std::vector<std::string> places;  // 0000:17:00.0: their order is that of the bus
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(base::Path(root.string() + kDevices), ignored))
    places.push_back(entry.path().filename().string());
  std::sort(places.begin(), places.end());
  std::vector<int> nodes;
  for (const auto& place : places) {
    const auto fact = [&](const char* name) {
      return system_text(root, base::format("{}/{}/{}", kDevices, place, name)).value_or("");
    };
    const std::string vendor = fact("vendor"), kind = fact("class");
    const bool computes = kind.starts_with("0x0300") || kind.starts_with("0x0302") || kind.starts_with("0x1200");
    if (!computes || !(vendor.starts_with("0x10de") || vendor.starts_with("0x1002"))) continue;
    nodes.push_back(static_cast<int>(whole_number(fact("numa_node")).value_or(-1)));
  }
  if (visible == nullptr) return nodes;
  std::vector<int> named;
  for (const std::string& part : split(visible, ',')) {
    const auto index = whole_number(part);
    if (!index || *index < 0 || *index >= std::ssize(nodes)) return {};
    named.push_back(nodes[static_cast<size_t>(*index)]);
  }
  return named;
}

std::string cores_text(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size(); ++i) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text +=
        base::format("{}{}", text.empty() ? "" : ",", cores[i]) + (last > i ? base::format("-{}", cores[last]) : "");
    i = last;
  }
  return text;
}

std::string nodes_text(const base::Path& root, const std::vector<int>& cores) {
  auto node_of = node_of_core(root);
  std::vector<int> nodes;
  for (const int core : cores)
    if (node_of.count(core) != 0) nodes.push_back(node_of[core]);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return cores_text(nodes);
}

}  // namespace hyperion::host

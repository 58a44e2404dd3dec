#include "hyperion/host/cgroup.h"

#include <algorithm>
#include <string>

#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

// Version 1 writes "no limit" as the largest whole page; no machine has this much.
constexpr int64_t kNoLimit = int64_t{1} << 60;

template <class T>
void tighten(std::optional<T>& limit, T found) {
  limit = limit ? std::min(*limit, found) : found;
}

void read_version_2(const base::Path& root, const std::string& folder, CgroupLimits& limits) {
  if (const auto text = system_text(root, folder + "/cpu.max")) {  // "150000 100000" or "max 100000"
    const auto parts = split(*text, ' ');
    const auto quota = parts.empty() ? std::nullopt : whole_number(parts[0]);
    const auto period = parts.size() < 2 ? std::optional<int64_t>(100000) : whole_number(parts[1]);
    if (quota && period && *quota > 0 && *period > 0)
      tighten(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  const auto memory = system_number(root, folder + "/memory.max");
  if (memory && *memory >= 0) tighten(limits.memory_bytes, static_cast<uint64_t>(*memory));
}

void read_version_1(const base::Path& root, const std::string& folder, CgroupLimits& limits) {
  const auto quota = system_number(root, folder + "/cpu.cfs_quota_us");
  const auto period = system_number(root, folder + "/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0)
    tighten(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  const auto memory = system_number(root, folder + "/memory.limit_in_bytes");
  if (memory && *memory >= 0 && *memory < kNoLimit) tighten(limits.memory_bytes, static_cast<uint64_t>(*memory));
}

// Calls `read` on the group's folder and every one above it, `base` included. A container may show a path that lies
// outside of what it can see; then only the folders above that exist count.
template <class Read>
void walk_up(const std::string& base, std::string group, Read read) {
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    read(base + group);
    if (group.empty()) return;
    group.erase(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
}

}  // namespace

CgroupLimits cgroup_limits(const base::Path& root) {
  CgroupLimits limits;
  const auto groups = system_text(root, "/proc/self/cgroup");
  if (!groups) return limits;
  for (const std::string& line : split(*groups, '\n')) {  // "0::/group" or "4:cpu,cpuacct:/group"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      walk_up("/sys/fs/cgroup", group, [&](const std::string& folder) { read_version_2(root, folder, limits); });
    for (const std::string& controller : split(controllers, ','))
      if (controller == "cpu" || controller == "memory")
        walk_up("/sys/fs/cgroup/" + controller, group,
                [&](const std::string& folder) { read_version_1(root, folder, limits); });
  }
  return limits;
}

}  // namespace hyperion::host

#include "hyperion/host/memory.h"

#include <algorithm>
#include <string>

#include "hyperion/host/cgroup.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

uint64_t kibibytes_line(const std::string& meminfo, std::string_view key) {
  for (const std::string& line : split(meminfo, '\n')) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    const auto words = split(line.substr(key.size() + 1), ' ');
    const auto number = words.empty() ? std::nullopt : whole_number(words[0]);
    return number ? static_cast<uint64_t>(*number) * 1024 : 0;
  }
  return 0;
}

}  // namespace

uint64_t Memory::usable() const { return cgroup_limit ? std::min(available, *cgroup_limit) : available; }

Memory memory(const base::Path& root) {
  const std::string meminfo = system_text(root, "/proc/meminfo").value_or("");
  Memory found;
  found.total = kibibytes_line(meminfo, "MemTotal");
  found.available = kibibytes_line(meminfo, "MemAvailable");
  if (found.available == 0) found.available = kibibytes_line(meminfo, "MemFree");
  found.cgroup_limit = cgroup_limits(root).memory_bytes;
  return found;
}

}  // namespace hyperion::host

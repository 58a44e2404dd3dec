#include "hyperion/host/cpu.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/host/cgroup.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

constexpr std::pair<const char*, const char*> kVectorFlags[] = {
    {"avx", "AVX"},
    {"avx2", "AVX2"},
    {"fma", "FMA"},
    {"f16c", "F16C"},
    {"avx_vnni", "AVX-VNNI"},
    {"avx512f", "AVX-512"},
    {"avx512_vnni", "AVX-512 VNNI"},
    {"avx512_bf16", "AVX-512 bf16"},
    {"avx512_fp16", "AVX-512 fp16"},
    {"amx_tile", "AMX"},
    {"amx_int8", "AMX int8"},
    {"amx_bf16", "AMX bf16"},
    {"amx_fp16", "AMX fp16"},
    {"asimd", "NEON"},
    {"asimdhp", "NEON fp16"},
    {"asimdfhm", "NEON fp16 products"},
    {"asimddp", "NEON dot"},
    {"i8mm", "int8 matrix"},
    {"bf16", "bf16"},
    {"sve", "SVE"},
    {"sve2", "SVE2"},
    {"svebf16", "SVE bf16"},
    {"sme", "SME"},
};

// ARM kernels give numbers, not names. Implementer, part, name.
struct ArmPart {
  int64_t implementer, part;
  const char* name;
};
constexpr ArmPart kArmParts[] = {
    {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse N1"},
    {0x41, 0xd40, "Neoverse V1"}, {0x41, 0xd49, "Neoverse N2"}, {0x41, 0xd4f, "Neoverse V2"},
    {0x41, 0xd84, "Neoverse V3"}, {0x41, 0xd8e, "Neoverse N3"}, {0x46, 0x001, "Fujitsu A64FX"},
    {0xc0, 0xac3, "Ampere-1"},    {0xc0, 0xac4, "Ampere-1A"},
};

// The value of a "key : value" line of /proc/cpuinfo, of the first processor that has it.
std::string cpuinfo_value(const std::string& cpuinfo, std::string_view key) {
  for (const std::string& line : split(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trimmed(std::string_view(line).substr(0, colon)) == key)
      return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

std::string model_name(const std::string& cpuinfo) {
  for (const char* key : {"model name", "Model", "cpu model"})
    if (std::string name = cpuinfo_value(cpuinfo, key); !name.empty()) return name;
  const std::string implementer = cpuinfo_value(cpuinfo, "CPU implementer"), part = cpuinfo_value(cpuinfo, "CPU part");
  if (implementer.empty() || part.empty()) return "unknown";
  for (const ArmPart& known : kArmParts)
    if (std::strtoll(implementer.c_str(), nullptr, 16) == known.implementer &&
        std::strtoll(part.c_str(), nullptr, 16) == known.part)
      return known.name;
  if (implementer == "0x61") return "Apple silicon";
  return base::format("ARM implementer {} part {}", implementer, part);
}

std::vector<std::string> vector_sets(const std::string& cpuinfo) {
  std::string flags = cpuinfo_value(cpuinfo, "flags");
  if (flags.empty()) flags = cpuinfo_value(cpuinfo, "Features");
  const auto words = split(flags, ' ');
  const std::set<std::string> present(words.begin(), words.end());
  std::vector<std::string> sets;
  for (const auto& [flag, name] : kVectorFlags)
    if (present.count(flag) != 0) sets.emplace_back(name);
  return sets;
}

// Logical cores that share a physical one tell the same list of siblings. Offline cores leave gaps in the numbers.
int physical_cores(const base::Path& root, int logical) {
  std::set<std::string> groups;
  for (int core = 0, seen = 0; seen < logical && core < 2 * logical + 1; ++core) {
    const std::string folder = base::format("/sys/devices/system/cpu/cpu{}/topology/", core);
    auto siblings = system_text(root, folder + "core_cpus_list");
    if (!siblings) siblings = system_text(root, folder + "thread_siblings_list");
    if (!siblings) continue;
    ++seen;
    groups.insert(*siblings);
  }
  return static_cast<int>(groups.size());
}

int logical_cores(const base::Path& root, const std::string& cpuinfo) {
  if (const auto online = system_text(root, "/sys/devices/system/cpu/online")) return list_count(*online);
  const auto lines = split(cpuinfo, '\n');
  return static_cast<int>(
      std::count_if(lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with("processor"); }));
}

// The fixed cpu_set_t holds 1024 processors; larger machines refuse it, so it grows until the kernel is content.
int affinity_cores() {
  for (int most = 1024; most <= 1 << 18; most *= 2) {
    cpu_set_t* set = CPU_ALLOC(most);
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const int result = sched_getaffinity(0, bytes, set);
    const int count = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (result == 0) return count;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int Cpu::usable_cores() const {
  int cores = allowed_cores > 0 ? allowed_cores : logical_cores;
  if (quota_cores) cores = std::min(cores, static_cast<int>(std::ceil(*quota_cores)));
  return std::max(cores, 1);
}

bool Cpu::multiplies(std::string_view type) const {
  constexpr std::pair<const char*, std::string_view> kProducts[] = {
      {"AVX-512 bf16", "bf16"},      {"AMX bf16", "bf16"},     {"bf16", "bf16"},
      {"SVE bf16", "bf16"},          {"AVX-512 fp16", "fp16"}, {"AMX fp16", "fp16"},
      {"NEON fp16 products", "fp16"}};
  return vector_sets.empty() || std::any_of(std::begin(kProducts), std::end(kProducts), [&](const auto& product) {
           return product.second == type &&
                  std::find(vector_sets.begin(), vector_sets.end(), product.first) != vector_sets.end();
         });
}

Cpu read_cpu(const base::Path& root, int allowed_cores, const std::string& architecture) {
  const std::string cpuinfo = system_text(root, "/proc/cpuinfo").value_or("");
  Cpu cpu;
  cpu.model = model_name(cpuinfo);
  cpu.architecture = architecture;
  cpu.logical_cores = logical_cores(root, cpuinfo);
  cpu.physical_cores = physical_cores(root, cpu.logical_cores);
  cpu.allowed_cores = allowed_cores;
  cpu.quota_cores = cgroup_limits(root).cpus;
  cpu.numa_nodes = list_count(system_text(root, "/sys/devices/system/node/online").value_or(""));
  cpu.vector_sets = vector_sets(cpuinfo);
  return cpu;
}

Cpu this_cpu() {
  utsname names{};
  return read_cpu("/", affinity_cores(), uname(&names) == 0 ? names.machine : "unknown");
}

}  // namespace hyperion::host

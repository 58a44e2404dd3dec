#include "hyperion/doctor/machine_checks.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"

namespace hyperion::doctor {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20, kGibibyte = uint64_t{1} << 30;
constexpr uint64_t kLeastMemory = 256 * kMebibyte, kLittleMemory = 2 * kGibibyte;
constexpr uint64_t kLeastDisk = 64 * kMebibyte, kLittleDisk = 5 * kGibibyte;
constexpr double kSlowDisk = 50e6;           // bytes a second
constexpr double kEarliestNow = 1767225600;  // 2026-01-01T00:00:00Z: this program is younger than that

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string plural(int count, const char* one, const char* many) {
  return base::format("{} {}", count, count == 1 ? one : many);
}

// Below it, what was measured is no reason to speak.
constexpr double kSlowType = 1.5;

// Empty where neither type is slow.
std::string slow_types(const host::Cpu& cpu, const CpuSlowdown& slowdown) {
  if (slowdown.bf16 > 0 || slowdown.fp16 > 0) {
    std::string slow;
    for (const auto& [name, times] : {std::pair("bf16", slowdown.bf16), std::pair("fp16", slowdown.fp16)})
      if (times > kSlowType)
        slow += base::format("{} about {:.0f} times",
                             slow.empty() ? name + std::string(" takes") : std::string(" and ") + name, times);
    return slow.empty() ? "" : slow + " as long as fp32 here: train in fp32 on this CPU";
  }
  const bool bf16 = cpu.multiplies("bf16"), fp16 = cpu.multiplies("fp16");
  if (bf16 && fp16) return {};
  return base::format("this CPU has no {} products: fp32 will be faster for what is trained on it",
                      bf16   ? "fp16"
                      : fp16 ? "bf16"
                             : "bf16 and fp16");
}

}  // namespace

Check check_cpu(const host::Cpu& cpu, const CpuSlowdown& slowdown) {
  Check check{"cpu", kMachineGroup, Verdict::ok, cpu.model, ""};
  if (cpu.architecture != "unknown") check.finding += " (" + cpu.architecture + ")";
  check.finding += ", " + plural(cpu.usable_cores(), "core usable", "cores usable");
  if (cpu.logical_cores > 0)
    check.finding += base::format(" of {} logical, {} physical", cpu.logical_cores,
                                  cpu.physical_cores > 0 ? std::to_string(cpu.physical_cores) : "unknown");
  if (cpu.quota_cores) check.finding += base::format(", quota {:.1f}", *cpu.quota_cores);
  check.finding += cpu.numa_nodes > 0 ? ", " + plural(cpu.numa_nodes, "NUMA node", "NUMA nodes") : ", NUMA unknown";
  check.finding += "; " + (cpu.vector_sets.empty() ? "vector sets unknown" : joined(cpu.vector_sets));

  const auto has = [&](const char* set) {
    return std::find(cpu.vector_sets.begin(), cpu.vector_sets.end(), set) != cpu.vector_sets.end();
  };
  if (cpu.quota_cores && *cpu.quota_cores < 1) {
    check.verdict = Verdict::warn;
    check.hint = "the control group grants less than one core: raise the CPU limit of the container";
  } else if (cpu.architecture == "x86_64" && !cpu.vector_sets.empty() && !has("AVX2")) {
    check.verdict = Verdict::warn;
    check.hint =
        "without AVX2 LibTorch falls back to slow kernels: use a newer CPU, or let the virtual machine show it";
  } else {
    check.hint = slow_types(cpu, slowdown);
  }
  return check;
}

Check check_memory(const host::Memory& memory) {
  Check check{"memory", kMachineGroup, Verdict::ok, "unknown", ""};
  if (memory.total == 0) return check;
  check.finding =
      base::format("{} available of {}", base::bytes_text(memory.available), base::bytes_text(memory.total));
  if (memory.cgroup_limit && *memory.cgroup_limit < memory.total)
    check.finding += base::format(", this process may hold {}", base::bytes_text(*memory.cgroup_limit));
  const uint64_t usable = memory.usable();
  if (usable >= kLittleMemory) return check;
  check.verdict = usable < kLeastMemory ? Verdict::fail : Verdict::warn;
  check.hint = memory.cgroup_limit && *memory.cgroup_limit < memory.available
                   ? "raise the memory limit of the container or job"
                   : "end programs that hold memory, or use a machine with more";
  return check;
}

Check check_disk_space(const host::Disk& disk) {
  Check check{"run folder", kMachineGroup, Verdict::ok, "", ""};
  check.finding = base::format("{}: {} free of {}, {}", disk.folder.string(), base::bytes_text(disk.free),
                               base::bytes_text(disk.total), disk.filesystem);
  if (!disk.writable) {
    check.verdict = Verdict::fail;
    check.finding = base::format("cannot write to {}: {}", disk.folder.string(), disk.not_writable_because);
    check.hint = "check its permissions, or choose another folder with HYPERION_RUNS";
  } else if (disk.free < kLittleDisk) {
    check.verdict = disk.free < kLeastDisk ? Verdict::fail : Verdict::warn;
    check.hint = "checkpoints need room: free some, or choose another folder with HYPERION_RUNS";
  } else if (disk.filesystem == "tmpfs" || disk.filesystem == "ramfs") {
    check.verdict = Verdict::warn;
    check.hint = "this folder lives in memory and is lost at a restart: choose a disk with HYPERION_RUNS";
  }
  return check;
}

Check check_disk_speed(const DiskTrial& trial) {
  Check check{"disk speed", kMachineGroup, Verdict::ok, "", ""};
  if (!trial.fault.empty()) {
    check.verdict = Verdict::fail;
    check.finding = trial.fault;
    check.hint = "free some space or check the permissions, or choose another folder with HYPERION_RUNS";
    return check;
  }
  if (trial.speed.bytes == 0) {
    check.verdict = Verdict::warn;
    check.finding = "not measured: too little space to try";
    check.hint = "free some space, or choose another folder with HYPERION_RUNS";
    return check;
  }
  const double speed = trial.speed.bytes_per_second;
  check.finding =
      base::format("{:.0f} MB/s written and synced ({} trial)", speed / 1e6, base::bytes_text(trial.speed.bytes));
  if (speed >= kSlowDisk) return check;
  check.verdict = Verdict::warn;
  check.hint = "checkpoints will be slow: save less often, or choose a faster disk with HYPERION_RUNS";
  return check;
}

Check check_clock(const ClockFacts& clock) {
  Check check{"clock", kMachineGroup, Verdict::ok, base::utc_text(clock.unix_seconds), ""};
  check.finding += !clock.synchronized   ? ", time service unknown"
                   : *clock.synchronized ? ", kept by a time service"
                                         : ", not kept by a time service";
  if (!(clock.monotonic_advance > 0)) {
    check.verdict = Verdict::fail;
    check.finding += ", the monotonic clock stands still";
    check.hint = "timeouts and timings cannot work: restart the machine or choose another clock source";
  } else if (clock.unix_seconds < kEarliestNow) {
    check.verdict = Verdict::warn;
    check.finding += ", before this program was written";
    check.hint = "set the clock, for example with: timedatectl set-ntp true";
  } else if (clock.several_processes && clock.synchronized == false) {
    check.verdict = Verdict::warn;
    check.hint = "logs and traces of several machines will not line up: start chrony or systemd-timesyncd";
  }
  return check;
}

}  // namespace hyperion::doctor

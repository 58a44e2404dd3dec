// Judgements of the machine: each a function of facts gathered before, so that any fact can be tried.
#pragma once
#include <optional>
#include <string>

#include "hyperion/doctor/check.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/disk.h"
#include "hyperion/host/memory.h"

namespace hyperion::doctor {

// How many times as long a step takes in that type as in fp32; 0: not measured.
struct CpuSlowdown {
  double bf16 = 0, fp16 = 0;
};
// Slow types are told by what was measured; where nothing was, by what the CPU's features lack.
Check check_cpu(const host::Cpu& cpu, const CpuSlowdown& slowdown = {});
Check check_memory(const host::Memory& memory);
Check check_disk_space(const host::Disk& disk);

struct DiskTrial {
  host::WriteSpeed speed;
  std::string fault;  // why the write was refused; empty: it was not
};
Check check_disk_speed(const DiskTrial& trial);

struct ClockFacts {
  double unix_seconds = 0;           // wall clock
  double monotonic_advance = 0;      // seconds, over a moment of work
  std::optional<bool> synchronized;  // by a time service; nothing: unknown
  bool several_processes = false;    // of this job, perhaps on several machines
};
Check check_clock(const ClockFacts& clock);

}  // namespace hyperion::doctor

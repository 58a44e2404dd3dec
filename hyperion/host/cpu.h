// The processor: what it is, and how much of it this process may use.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::host {

struct Cpu {
  std::string model = "unknown";
  std::string architecture = "unknown";  // "x86_64", "aarch64"
  int logical_cores = 0;                 // online; 0: unknown
  int physical_cores = 0;                // 0: unknown
  int allowed_cores = 0;                 // by the affinity mask of this process
  std::optional<double> quota_cores;     // by control groups; nothing: no quota
  int numa_nodes = 0;                    // 0: unknown
  std::vector<std::string>
      vector_sets;  // "AVX2", "AVX-512 bf16", "NEON", "SVE" ..., as the machine's kernel allows them

  // How many threads can truly run at once: at least 1.
  int usable_cores() const;
  // Whether it has products of "bf16" or "fp16"; true where its vector sets are unknown.
  bool multiplies(std::string_view type) const;
};

Cpu this_cpu();
// The same from a tree laid out like /proc and /sys.
Cpu read_cpu(const base::Path& root, int allowed_cores, const std::string& architecture);

}  // namespace hyperion::host

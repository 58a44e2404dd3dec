#include <unistd.h>

#include <cstdio>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/version.h"
#include "hyperion/bench/hardware.h"
#include "hyperion/bench/hardware_report.h"
#include "hyperion/blocks/cpu_precision.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/result_folder.h"
#include "hyperion/comm/versions.h"
#include "hyperion/doctor/doctor.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {
namespace {

constexpr int64_t kTrialWidth = 256, kTrialLength = 64;  // of a block that is tried in 16 bits

}  // namespace

int doctor_command(bool json, bool quick) {
  const auto try_cpu = [] {
    const auto slowdown = [](c10::ScalarType type) { return blocks::cpu_slowdown(type, kTrialWidth, kTrialLength); };
    return doctor::CpuSlowdown{slowdown(c10::kBFloat16), slowdown(c10::kHalf)};
  };
  const auto checks = doctor::examine({interop::runs_folder_as_set(), quick, try_cpu});
  const auto text = json ? doctor::doctor_json(checks) : doctor::doctor_table(checks, base::use_color(STDOUT_FILENO));
  std::printf("%s%s", text.c_str(), text.ends_with('\n') ? "" : "\n");
  return doctor::any_fail(checks) ? 3 : 0;
}

int bench_hardware_command(const BenchOptions& options) {
  bench::HardwareOptions hardware;
  if (!options.sizes.empty()) hardware.sizes = options.sizes;
  hardware.dtypes = options.dtypes;
  hardware.only = options.only;
  hardware.device = options.device;
  hardware.quick = options.quick;
  if (!options.elements.empty()) hardware.elements = options.elements;
  hardware.seconds_per_case = options.seconds;
  const ResultFolder folder("bench-hardware", options.folder);
  const auto result = bench::run_hardware_bench(hardware);
  bench::write_hardware_files(result, folder.path());
  const auto text =
      options.json ? bench::hardware_json(result) : bench::hardware_table(result, base::use_color(STDOUT_FILENO));
  std::printf("%s%s", text.c_str(), text.ends_with('\n') ? "" : "\n");
  if (!options.json) std::printf("files: %s\n", folder.path().c_str());
  return 0;
}

std::string version_lines() {
  const auto versions = comm::library_versions();
  std::string out = base::format("hyperion {}\n", base::version_text());
  const auto line = [&](const comm::LibraryVersion& library) {
    out += base::format("{} {}\n", library.name, library.loaded.empty() ? "absent" : library.loaded);
  };
  line(versions.torch);
  for (const auto& library : versions.gpu_libraries) line(library);
  if (!versions.gpu_form) out += "CUDA/HIP: not in this build\n";
  return out;
}

}  // namespace hyperion::cli

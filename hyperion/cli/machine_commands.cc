#include <unistd.h>

#include <cstdio>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/version.h"
#include "hyperion/bench/hardware.h"
#include "hyperion/blocks/cpu_precision.h"
#include "hyperion/cli/commands.h"
#include "hyperion/comm/versions.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/result_folder.h"
#include "hyperion/command/usage.h"
#include "hyperion/doctor/doctor.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {
namespace {

constexpr int64_t kTrialWidth = 256, kTrialLength = 64;  // of a block that is tried in 16 bits

}  // namespace

int doctor_command(const DoctorOptions& options) {
  const auto try_cpu = [] {
    const auto slowdown = [](c10::ScalarType type) { return blocks::cpu_slowdown(type, kTrialWidth, kTrialLength); };
    return doctor::CpuSlowdown{slowdown(c10::kBFloat16), slowdown(c10::kHalf)};
  };
  const auto checks = doctor::examine({interop::runs_folder_as_set(), options.quick, try_cpu});
  const auto text =
      options.json ? doctor::doctor_json(checks) : doctor::doctor_table(checks, base::use_color(STDOUT_FILENO));
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

void add_doctor_command(Commands& commands) {
  const auto add_flags = [](CLI::App* doctor, DoctorOptions& options) {
    doctor->add_flag("--json", options.json, "as JSON");
    doctor->add_flag("--quick", options.quick, "skip what is tried: the disk's write, the CPU in 16 bits");
    doctor->footer("\nExits with 3 when something would stop training.\n\nExample:\n  hyperion doctor");
  };
  commands.add<DoctorOptions>("doctor", "check this machine, and say what to do", add_flags, doctor_command);
}

void add_hardware_bench(Commands& bench) {
  const auto add_flags = [](CLI::App* hardware, BenchOptions& options) {
    hardware->add_option("--sizes", options.sizes, "sides of square matrices (default 1024,2048,4096,8192)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(whole_number(1, 1 << 20));
    hardware->add_option("--dtypes", options.dtypes, "of fp32,tf32,fp16,bf16,fp8 (default: all supported)")
        ->delimiter(',')
        ->allow_extra_args(false);
    hardware->add_option("--only", options.only, "of matmul,bandwidth,transfer,latency (default: all)")
        ->delimiter(',')
        ->allow_extra_args(false);
    hardware->add_option("--device", options.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
    hardware->add_option("--elements", options.elements, "vector lengths (default 10 to 500 million)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(whole_number(1, int64_t{1} << 40));
    hardware->add_option("--seconds", options.seconds, "time for each case (default 1)")->check(number(0.01, 3600));
    hardware->add_option("--folder", options.folder,
                         "where the files go (default: bench-hardware and time, among the runs)");
    hardware->add_flag("--quick", options.quick, "short: fewer repeats, no long cases");
    hardware->add_flag("--json", options.json, "as JSON");
    hardware->footer(
        "\nExamples:\n  hyperion bench hardware --quick\n  hyperion bench hardware --sizes 4096,8192 --dtypes bf16");
  };
  bench.add<BenchOptions>("hardware", "matrix products, memory bandwidth, transfers, launch latency", add_flags,
                          bench_hardware_command);
}

}  // namespace hyperion::cli

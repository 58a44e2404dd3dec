#include "hyperion/doctor/doctor.h"

#include <unistd.h>

#include <cstdlib>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/nccl_settings.h"
#include "hyperion/comm/versions.h"
#include "hyperion/doctor/gpu_checks.h"
#include "hyperion/doctor/machine_checks.h"
#include "hyperion/doctor/software_checks.h"
#include "hyperion/host/clock_sync.h"
#include "hyperion/host/ports.h"
#include "hyperion/host/programs.h"

namespace hyperion::doctor {
namespace {

constexpr const char* kProfilers[] = {"nsys", "ncu", "rocprofv3", "rocprof-sys", "rocprof-compute"};

const char* environment(const char* name) { return std::getenv(name); }

DiskTrial try_disk(const host::Disk& disk) {
  DiskTrial trial;
  try {
    trial.speed =
        host::measure_write(base::real_files(), base::real_clock(), disk.folder, host::trial_bytes(disk.free));
  } catch (const base::FileError& error) {
    trial.fault = error.what();
  }
  return trial;
}

ClockFacts clock_facts(const std::optional<host::Launch>& launch) {
  ClockFacts facts;
  const base::Clock& clock = base::real_clock();
  facts.unix_seconds = clock.unix_seconds();
  const double start = clock.seconds();
  for (int tries = 0; tries < 1000000 && facts.monotonic_advance <= 0; ++tries)
    facts.monotonic_advance = clock.seconds() - start;
  facts.synchronized = host::clock_synchronized();
  facts.several_processes = launch && launch->world > 1;
  return facts;
}

std::optional<host::Launch> launch_if_readable() {
  try {
    return host::find_launch(environment);
  } catch (const base::ConfigError&) {
    return std::nullopt;  // check_launch tells
  }
}

std::string cuda_built(const comm::Versions& versions) {
  for (const comm::LibraryVersion& library : versions.gpu_libraries)
    if (library.name == "CUDA runtime") return library.built;
  return {};
}

void examine_machine(const DoctorOptions& options, const std::optional<host::Launch>& launch,
                     std::vector<Check>& checks) {
  const bool tries = !options.quick && options.try_cpu;
  checks.push_back(check_cpu(host::this_cpu(), tries ? options.try_cpu() : CpuSlowdown{}));
  checks.push_back(check_memory(host::memory()));
  const host::Disk disk = host::disk_of(options.runs_folder);
  checks.push_back(check_disk_space(disk));
  if (!options.quick && disk.writable) checks.push_back(check_disk_speed(try_disk(disk)));
  checks.push_back(check_clock(clock_facts(launch)));
}

void examine_gpus(const host::GpuSurvey& survey, const comm::Versions& versions, std::vector<Check>& checks) {
  for (const host::Gpu& gpu : survey.gpus) checks.push_back(check_gpu(gpu, cuda_built(versions)));
  if (survey.gpus.empty()) checks.push_back(check_no_gpu(survey, versions.gpu_form));
  checks.push_back(check_gpu_use(survey, comm::try_gpus(), versions.gpu_form, environment("CUDA_VISIBLE_DEVICES")));
}

void examine_libraries(const comm::Versions& versions, std::vector<Check>& checks) {
  checks.push_back(check_torch(versions));
  for (const comm::LibraryVersion& library : versions.gpu_libraries) checks.push_back(check_library(library));
  checks.push_back(check_gloo(comm::gloo_fault()));
}

void examine_job(const std::optional<host::Launch>& launch, const host::GpuSurvey& survey, std::vector<Check>& checks) {
  checks.push_back(check_launch(environment));
  std::vector<std::string> gpus;
  for (const auto& gpu : survey.gpus) gpus.push_back(gpu.name);
  checks.push_back(check_nccl(comm::nccl_variables_set(::environ), gpus, comm::has_slingshot()));
  const int port = launch && launch->master_port > 0 ? launch->master_port : host::kDefaultPort;
  checks.push_back(check_port(port, host::port_is_free(port), launch));
}

void examine_tools(const host::GpuSurvey& survey, const comm::Versions& versions, std::vector<Check>& checks) {
  const char* search_path = environment("PATH");
  std::vector<FoundProgram> profilers;
  for (const char* name : kProfilers)
    profilers.emplace_back(name, host::find_program(name, search_path == nullptr ? "" : search_path));
  checks.push_back(check_profilers(profilers));
  checks.push_back(check_features(versions, survey.telemetry, survey.absent));
}

}  // namespace

std::vector<Check> examine(const DoctorOptions& options) {
  const base::OperationScope scope("doctor");
  const auto launch = launch_if_readable();
  const comm::Versions versions = comm::library_versions();
  const host::GpuSurvey survey = host::survey_gpus();
  std::vector<Check> checks;
  examine_machine(options, launch, checks);
  base::throw_if_stopped("examining this machine");
  examine_gpus(survey, versions, checks);
  base::throw_if_stopped("examining this machine");
  examine_libraries(versions, checks);
  examine_job(launch, survey, checks);
  examine_tools(survey, versions, checks);
  return checks;
}

}  // namespace hyperion::doctor

#include "hyperion/host/gpu.h"

#include <algorithm>
#include <cctype>

#include "hyperion/host/gpu_vitals.h"
#include "hyperion/host/nvml.h"
#include "hyperion/host/rocm_smi.h"

namespace hyperion::host {
namespace {

void join(GpuSurvey& whole, GpuSurvey part) {
  for (Gpu& gpu : part.gpus) whole.gpus.push_back(std::move(gpu));
  for (std::string& reason : part.absent) whole.absent.push_back(std::move(reason));
  whole.telemetry = whole.telemetry || part.telemetry;
}

}  // namespace

GpuSurvey survey_gpus() {
  GpuSurvey survey;
  std::string reason;
  if (const auto nvml = load_nvml(kNvmlLibrary, reason))
    join(survey, survey_nvidia(*nvml));
  else
    survey.absent.push_back(reason);
  std::string first_reason;
  for (const char* library : kRocmSmiLibraries) {
    if (const auto rocm = load_rocm_smi(library, reason)) {
      join(survey, survey_amd(*rocm));
      return survey;
    }
    if (first_reason.empty()) first_reason = reason;
  }
  survey.absent.push_back(first_reason);
  return survey;
}

const char* slowed_text(Slowed slowed) {
  switch (slowed) {
    case Slowed::nothing:
      return "nothing";
    case Slowed::power:
      return "its power limit";
    case Slowed::heat:
      return "heat";
    case Slowed::hardware:
      break;
  }
  return "its hardware";
}

std::unique_ptr<GpuReader> gpu_reader(const std::string& pci) {
  std::string place = pci, reason;
  std::transform(place.begin(), place.end(), place.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const auto nvml = load_nvml(kNvmlLibrary, reason))
    if (auto reader = nvidia_reader(*nvml, place)) return reader;
  for (const char* library : kRocmSmiLibraries)
    if (const auto rocm = load_rocm_smi(library, reason)) return amd_reader(*rocm, place);
  return nullptr;
}

}  // namespace hyperion::host

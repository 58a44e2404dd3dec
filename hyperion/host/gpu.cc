#include "hyperion/host/gpu.h"

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

}  // namespace hyperion::host

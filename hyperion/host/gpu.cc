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
  if (const auto rocm = load_rocm_smi(kRocmSmiLibrary, reason))
    join(survey, survey_amd(*rocm));
  else
    survey.absent.push_back(reason);
  return survey;
}

}  // namespace hyperion::host

// Judgements of the GPUs and of whether this program can use them.
#pragma once
#include <string>

#include "hyperion/comm/versions.h"
#include "hyperion/doctor/check.h"
#include "hyperion/host/gpu.h"

namespace hyperion::doctor {

// `cuda_built` is the CUDA that LibTorch was compiled with ("13.0"), empty where it was not.
Check check_gpu(const host::Gpu& gpu, const std::string& cuda_built);

// No GPU at all: what was looked for. Fine on a machine that has none.
Check check_no_gpu(const host::GpuSurvey& survey, bool gpu_form);

// Whether LibTorch in this program reaches the GPUs. `visible_devices` is CUDA_VISIBLE_DEVICES, null where it is not
// set.
Check check_gpu_use(const host::GpuSurvey& survey, const comm::GpuUse& use, bool gpu_form, const char* visible_devices);

}  // namespace hyperion::doctor

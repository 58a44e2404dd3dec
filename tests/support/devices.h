// Each kernel test runs on every device of this machine, with a tolerance by type.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "hyperion/device/device.h"

namespace hyperion::testing {

inline std::vector<at::Device> devices() {
  std::vector<at::Device> list{at::kCPU};
  if (device::gpu_count() > 0) list.emplace_back(at::kCUDA, 0);
  return list;
}

inline std::string device_name(const ::testing::TestParamInfo<at::Device>& info) {
  return info.param.is_cuda() ? "cuda" : "cpu";
}

inline double relative_error(const at::Tensor& value, const at::Tensor& reference) {
  const auto wide = reference.to(at::kDouble), difference = value.to(at::kDouble).sub(wide);
  return difference.norm().item<double>() / (wide.norm().item<double>() + 1e-30);
}

class OnDevice : public ::testing::TestWithParam<at::Device> {};

}  // namespace hyperion::testing

#include "hyperion/device/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/words.h"

namespace hyperion::device {
namespace {

class ToOurLog final : public c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    const auto& text = warning.msg();
    base::log_warn("LibTorch: " + text.substr(0, text.find('\n')));
  }
};

// The vector functions of MKL (exp, log and the like, on x86) find out at their first call what the CPU can do. Where
// two threads call first at the same time, one in some forty processes went on with functions that are less exact, and
// the bits of a run did not repeat. So one thread alone calls first.
void begin_vector_functions() { [[maybe_unused]] static const auto called = at::log(at::exp(at::zeros({64}))); }

}  // namespace

void log_library_warnings() {
  static ToOurLog handler;
  c10::WarningUtils::set_warning_handler(&handler);
}

int gpu_count() { return at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0; }

c10::Device open_device(const std::string& name) {
  begin_vector_functions();
  const int count = gpu_count();
  if (name == "cpu" || (name == "auto" && count == 0)) return c10::kCPU;
  int index = 0;
  if (name.starts_with("cuda:")) index = std::atoi(name.c_str() + 5);
  if (index >= count)
    throw base::PreflightError(
        base::format("device \"{}\" was asked for, but {} usable from here", name,
                     count == 0 ? "no GPU is" : base::format("only {} GPUs are", count)),
        "use --device cpu, or see what `hyperion doctor` says of the GPU, its driver and this build");
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // before it PyTorch's memory figures are a crash
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}
c10::Device open_device(DeviceChoice choice) { return open_device(std::string(base::word_of(choice))); }

void synchronize(c10::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

void set_cpu_threads(int64_t threads) { at::set_num_threads(static_cast<int>(threads)); }
int64_t cpu_threads() { return at::get_num_threads(); }

void allow_tf32(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

void measure_convolutions() { at::globalContext().setBenchmarkCuDNN(true); }

void use_deterministic_algorithms() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

}  // namespace hyperion::device

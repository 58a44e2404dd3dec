#include "hyperion/blocks/attention_backend.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/version.h>

#include <array>
#include <limits>
#include <map>
#include <mutex>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/device/device.h"
#include "hyperion/device/gpu_time.h"
#include "hyperion/device/graph.h"
#include "hyperion/device/tuning_cache.h"

namespace hyperion::blocks {
namespace {

constexpr std::array kNames = {"cudnn", "flash"};  // by AttentionBackend
constexpr double kNever = std::numeric_limits<double>::infinity();

std::optional<AttentionBackend> forced;

double microseconds(c10::Device device, const std::function<void()>& work) {
  try {
    return device::microseconds_of(device, work);
  } catch (const std::exception& error) {
    base::log_debug(base::format("attention: {}", error.what()));
    return kNever;
  }
}

device::Tuning timed(c10::Device device, const std::function<void(AttentionBackend)>& attend) {
  std::array<double, 2> taken{};
  for (const auto backend : {AttentionBackend::cudnn, AttentionBackend::flash})
    taken[static_cast<size_t>(backend)] = microseconds(device, [&] { attend(backend); });
  const size_t best = taken[1] < taken[0] ? 1 : 0;
  return {kNames[best], taken[best], taken[0] < kNever ? taken[0] : taken[best]};
}

}  // namespace

AttentionBackend attention_backend(c10::Device device, const std::string& what,
                                   const std::function<void(AttentionBackend)>& attend) {
  static std::mutex mutex;
  static std::map<std::string, AttentionBackend> known;
  if (forced) return *forced;
  // cuDNN's backward adds up in the order its blocks come.
  if (at::globalContext().deterministicAlgorithms()) return AttentionBackend::flash;
  if (!device::is_tuning()) return AttentionBackend::cudnn;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(what); found != known.end()) return found->second;
  const device::TuningKey key{
      device::device_text(device),
      base::format("torch {} cuDNN {}", TORCH_VERSION, at::detail::getCUDAHooks().versionCuDNN()), what};
  auto choice = device::tuning_cache().find(key);
  if (!choice || (choice->way != kNames[0] && choice->way != kNames[1])) {
    if (device::recording()) return AttentionBackend::cudnn;
    choice = timed(device, attend);
    if (choice->microseconds < kNever) device::tuning_cache().keep(key, *choice);
  }
  return known[what] = choice->way == kNames[1] ? AttentionBackend::flash : AttentionBackend::cudnn;
}

void use_attention_backend(std::optional<AttentionBackend> backend) { forced = backend; }

}  // namespace hyperion::blocks

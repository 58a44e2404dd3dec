// What ran on the device, out of all that a trace holds: kernels, copies and fills, in the order they began.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

// Told from the name, with HTA's words for it (its get_kernel_type).
enum class WorkKind : uint8_t {
  computation,
  communication,  // nccl...Kernel
  memory,         // Memcpy..., Memset..., dma...
  other,          // waits, and copies by other names
};
constexpr WorkKind kWorkKinds[] = {WorkKind::computation, WorkKind::communication, WorkKind::memory, WorkKind::other};
std::string_view kind_text(WorkKind kind);
WorkKind work_kind(std::string_view name);

struct DeviceSpan {
  int64_t begin = 0, end = 0;         // nanoseconds
  int64_t launched = trace::kNoTime;  // when its launch began, where that is recorded
  uint32_t event = 0;                 // its number in the trace
  WorkKind kind = WorkKind::computation;
};

struct StepOptions {
  // The last of several ProfilerSteps: its kernels may have been cut off when the recording ended, so that HTA and we
  // leave them out unless asked.
  bool include_last = false;
};

struct DeviceWork {
  std::vector<DeviceSpan> spans;  // by begin
  int64_t steps = 0;              // ProfilerSteps that were looked at; 0: the trace has none, and all of it was
  int64_t left_out = 0;           // spans of the last step, or without a launch among the others
};

DeviceWork device_work(const trace::Trace& trace, const StepOptions& options = {});

}  // namespace hyperion::analysis

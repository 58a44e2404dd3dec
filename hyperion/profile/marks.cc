#include "hyperion/profile/marks.h"

#include <torch/csrc/profiler/stubs/base.h>

#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/profile/span.h"

namespace hyperion::profile {

// Nsight Systems and Nsight Compute tell NVTX with the first where their own code is; rocprofv3 --marker-trace sets the
// other.
bool marks_asked_for(const std::function<std::string(const char*)>& variable) {
  const auto said = variable("HYPERION_MARKS");
  if (!said.empty() && said != "0" && said != "1")
    throw base::ConfigError(base::format("HYPERION_MARKS=\"{}\" is neither 0 nor 1", said),
                            "1: mark ranges for profilers from outside; 0: do not; leave it out: where one is there");
  if (!said.empty()) return said == "1";
  const auto rocm = variable("ROCPROF_MARKER_API_TRACE");
  return !variable("NVTX_INJECTION64_PATH").empty() || (!rocm.empty() && rocm != "0");
}

void mark_spans_where_asked() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (!marks_asked_for(variable)) return;
  namespace stubs = torch::profiler::impl;
  if (!stubs::cudaStubs()->enabled()) {
    if (!variable("HYPERION_MARKS").empty())
      base::log_warn("HYPERION_MARKS: this build knows no ranges, which come with the cuda and rocm presets");
    return;
  }
  static const SpanMarker marker{[](const char* name) { stubs::cudaStubs()->rangePush(name); },
                                 [] { stubs::cudaStubs()->rangePop(); }};
  set_span_marker(&marker);
}

}  // namespace hyperion::profile

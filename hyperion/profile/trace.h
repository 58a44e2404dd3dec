// Records what ran between begin and end, by LibTorch's profiler (kineto): a GPU's kernels, or a CPU's operations.
#pragma once
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/profile/gaps.h"

namespace hyperion::profile {

struct Trace {
  std::vector<TracedSpan>
      spans;  // by begin. Of a GPU: kernels, copies and fills; of a CPU: each operation's own stretches
};

// One at a time in a process; the steps traced must be queued by the thread that made it.
class TraceRecorder {
 public:
  explicit TraceRecorder(bool gpu);  // begins; wait for earlier work first
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // Ends; the device's work must be done. `path`, where not empty: also written there, as Chrome's and Perfetto's JSON.
  Trace end(const std::string& path = {});

 private:
  bool gpu_, running_ = true;
};

// The work of one name together.
struct KernelTotal {
  std::string name;  // without its template arguments and parameters
  int64_t count = 0;
  double milliseconds = 0;
};
// The most time first.
std::vector<KernelTotal> kernel_totals(const std::vector<TracedSpan>& spans);

// "void at::native::gelu_kernel<float>(float*)" -> "at::native::gelu_kernel".
std::string short_kernel_name(const std::string& name);

// What a GPU's kernel is for, told from its name: a matrix product, a convolution, attention, the optimizer's update
// with the norm before it, any other of ours (norms, activations, losses, copies of heads), any other of PyTorch's, a
// copy or fill of memory.
enum class KernelKind { product, convolution, attention, update, ours, torch, memory };
constexpr KernelKind kKernelKinds[] = {KernelKind::product, KernelKind::convolution, KernelKind::attention,
                                       KernelKind::update,  KernelKind::ours,        KernelKind::torch,
                                       KernelKind::memory};
KernelKind kernel_kind(const std::string& name);
std::string kind_text(KernelKind kind);  // "products"

// Milliseconds by kind, in the order of kKernelKinds.
using KindTimes = std::array<double, std::size(kKernelKinds)>;
KindTimes kind_times(const std::vector<TracedSpan>& spans);

}  // namespace hyperion::profile

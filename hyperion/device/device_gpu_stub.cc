// A build without GPUs: what device_gpu.cc and graph_gpu.cc give in one that has them.
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/device/device.h"
#include "hyperion/device/gpu.h"
#include "hyperion/device/graph.h"

namespace hyperion::device {

std::string device_text(c10::Device) { return "CPU"; }
int gpu_capability(c10::Device) { return 0; }
std::string pci_place(c10::Device) { return {}; }
void* current_gpu_stream(int) { return nullptr; }
void no_gpu_kernels() { throw base::Error("this build has no GPU kernels", "build the cuda preset"); }

struct Graph::Form {};
Graph::Graph(const Graph*) {}
Graph::~Graph() = default;
void Graph::record(const std::function<void()>&) {
  throw base::Error("this build has no GPU graphs", "build the cuda preset");
}
void Graph::replay() { throw base::Error("this build has no GPU graphs", "build the cuda preset"); }
bool recording() { return false; }
void once_recorded(std::function<void()> work) { std::exchange(work, nullptr)(); }
void on_side_stream(const std::function<void()>& work) { work(); }

}  // namespace hyperion::device

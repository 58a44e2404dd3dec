#include "hyperion/device/graph_fills.h"

#include <cstdint>
#include <vector>

#include "hyperion/device/gpu_runtime.h"

namespace hyperion::device {

#ifdef __HIPCC__
void fill_by_kernels(void*) {}  // not measured there
#else
namespace {

constexpr unsigned kThreads = 256;

// word: four bytes of the pattern; `to` lies at a multiple of 16.
__global__ void fill(unsigned char* to, uint32_t word, int64_t bytes) {
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x, step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = first; i < bytes / 16; i += step) reinterpret_cast<uint4*>(to)[i] = uint4{word, word, word, word};
  for (int64_t i = bytes / 16 * 16 + first; i < bytes; i += step)
    to[i] = static_cast<unsigned char>(word >> (8 * (i % 4)));
}

uint32_t four_bytes(uint32_t value, unsigned element) {
  return element == 1 ? (value & 0xff) * 0x01010101u : element == 2 ? (value & 0xffff) * 0x00010001u : value;
}

using Nodes = std::vector<cudaGraphNode_t>;

#if CUDART_VERSION >= 13000
cudaError_t before(cudaGraphNode_t node, cudaGraphNode_t* list, size_t* count) {
  return cudaGraphNodeGetDependencies(node, list, nullptr, count);
}
cudaError_t after(cudaGraphNode_t node, cudaGraphNode_t* list, size_t* count) {
  return cudaGraphNodeGetDependentNodes(node, list, nullptr, count);
}
cudaError_t connect(cudaGraph_t graph, const Nodes& from, const Nodes& to) {
  return cudaGraphAddDependencies(graph, from.data(), to.data(), nullptr, to.size());
}
#else
cudaError_t before(cudaGraphNode_t node, cudaGraphNode_t* list, size_t* count) {
  return cudaGraphNodeGetDependencies(node, list, count);
}
cudaError_t after(cudaGraphNode_t node, cudaGraphNode_t* list, size_t* count) {
  return cudaGraphNodeGetDependentNodes(node, list, count);
}
cudaError_t connect(cudaGraph_t graph, const Nodes& from, const Nodes& to) {
  return cudaGraphAddDependencies(graph, from.data(), to.data(), to.size());
}
#endif

// What a node waits for, or what waits for it; false where an edge is no plain one.
bool neighbours(cudaError_t (*ask)(cudaGraphNode_t, cudaGraphNode_t*, size_t*), cudaGraphNode_t node, Nodes& found) {
  size_t count = 0;
  if (ask(node, nullptr, &count) != cudaSuccess) return false;
  found.resize(count);
  return count == 0 || ask(node, found.data(), &count) == cudaSuccess;
}

bool replace(cudaGraph_t graph, cudaGraphNode_t node) {
  cudaMemsetParams set{};
  if (cudaGraphMemsetNodeGetParams(node, &set) != cudaSuccess) return false;
  if (set.height != 1 || reinterpret_cast<uintptr_t>(set.dst) % 16 != 0) return false;
  Nodes earlier, later;
  if (!neighbours(before, node, earlier) || !neighbours(after, node, later)) return false;
  auto* to = static_cast<unsigned char*>(set.dst);
  uint32_t word = four_bytes(set.value, set.elementSize);
  int64_t bytes = static_cast<int64_t>(set.width * set.elementSize);
  const int64_t needed = (bytes / 16 + kThreads - 1) / kThreads, most = int64_t{8} * gpu_limits().multiprocessors;
  void* arguments[] = {&to, &word, &bytes};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(fill);
  kernel.gridDim = dim3(needed < 1 ? 1 : static_cast<unsigned>(needed < most ? needed : most));
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = arguments;
  cudaGraphNode_t made;
  if (cudaGraphAddKernelNode(&made, graph, earlier.data(), earlier.size(), &kernel) != cudaSuccess) return false;
  if (!later.empty() && connect(graph, Nodes(later.size(), made), later) != cudaSuccess) {
    cudaGraphDestroyNode(made);
    return false;
  }
  return cudaGraphDestroyNode(node) == cudaSuccess;
}

}  // namespace

void fill_by_kernels(void* given) {
  const auto graph = static_cast<cudaGraph_t>(given);
  size_t count = 0;
  cudaGraphGetNodes(graph, nullptr, &count);
  Nodes nodes(count);
  cudaGraphGetNodes(graph, nodes.data(), &count);
  for (const auto node : nodes) {
    cudaGraphNodeType type;
    if (cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeMemset) replace(graph, node);
  }
  cudaGetLastError();  // what could not be replaced stays, and is no error
}
#endif

}  // namespace hyperion::device

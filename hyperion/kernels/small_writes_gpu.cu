#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/small_writes_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) small_writes_kernel(SmallWriteList list) {
  const SmallWrite& write = list.writes[blockIdx.y];
  const int64_t thread = blockIdx.x * int64_t{kThreads} + threadIdx.x, threads = int64_t{gridDim.x} * kThreads;
  auto* to = static_cast<unsigned char*>(write.to);
  const auto* from = static_cast<const unsigned char*>(write.from);
  if (from == nullptr) {
    auto* words = reinterpret_cast<uint32_t*>(to);
    for (int64_t i = thread; i < write.bytes / 4; i += threads) words[i] = list.words[write.word + i];
    return;
  }
  int64_t whole = 0;
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 == 0) {
    whole = write.bytes / 16 * 16;
    for (int64_t i = thread; i < whole / 16; i += threads)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  for (int64_t i = whole + thread; i < write.bytes; i += threads) to[i] = from[i];
}

}  // namespace

void small_writes_gpu(const SmallWriteList& list, void* stream) {
  int64_t most = 0;
  for (int i = 0; i < list.count; ++i) most = list.writes[i].bytes > most ? list.writes[i].bytes : most;
  if (most == 0) return;
  const int64_t blocks = (most / 16 + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks < 1 ? 1 : blocks < 64 ? blocks : 64), static_cast<unsigned>(list.count));
  small_writes_kernel<<<grid, kThreads, 0, static_cast<GpuStream>(stream)>>>(list);
  check_launch("small_writes");
}

}  // namespace hyperion::kernels

// c10d's header shows NCCL only where this is defined; the code is in libtorch_cuda. In LibTorch's ROCm builds the same
// names stand for RCCL.
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "hyperion/comm/c10d_transport.h"
#include "hyperion/comm/nccl_transport.h"

namespace hyperion::comm {

bool has_nccl() { return true; }

std::unique_ptr<Transport> make_nccl_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               std::chrono::milliseconds timeout) {
  const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  return make_c10d_transport("nccl", std::move(group), /*stream_ordered=*/true, store);
}

}  // namespace hyperion::comm

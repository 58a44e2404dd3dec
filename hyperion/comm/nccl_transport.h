// NCCL's (on AMD GPUs RCCL's) wires behind Transport. For sources of this folder: includes c10d.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "hyperion/comm/transport.h"

namespace hyperion::comm {

bool has_nccl();  // this build

// Tensors on this process's GPU only, which no other rank may share. Calls queue on the current stream and return. Null
// in a build without GPUs.
std::unique_ptr<Transport> make_nccl_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               std::chrono::milliseconds timeout);

}  // namespace hyperion::comm

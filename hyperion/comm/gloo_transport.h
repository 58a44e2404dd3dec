// Gloo's wires behind Transport. For sources of this folder: includes c10d.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "hyperion/comm/transport.h"

namespace hyperion::comm {

// `address` is this host's own, on the network the group talks over; empty: Gloo's own choice. GLOO_SOCKET_IFNAME beats
// it. Throws Error where descriptors are lacking, else what c10d throws.
c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  const std::string& address, std::chrono::milliseconds timeout);
std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               const std::string& address, std::chrono::milliseconds timeout);

}  // namespace hyperion::comm

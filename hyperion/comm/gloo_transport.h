// Gloo's wires behind Transport. For sources of this folder: includes c10d.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "hyperion/comm/transport.h"

namespace hyperion::comm {

// `address` is this host's own, on the network the group talks over. GLOO_SOCKET_IFNAME beats it.
std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               const std::string& address, std::chrono::milliseconds timeout);

}  // namespace hyperion::comm

// One of c10d's backends behind Transport. For sources of this folder: includes c10d.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "hyperion/comm/transport.h"

namespace hyperion::comm {

// `stream_ordered`: it moves a GPU's memory itself, in the order of the current stream; else what lies there goes by
// way of the host. The ranks ask each other through the store who is missing.
std::unique_ptr<Transport> make_c10d_transport(std::string kind, c10::intrusive_ptr<c10d::Backend> backend,
                                               bool stream_ordered, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace hyperion::comm

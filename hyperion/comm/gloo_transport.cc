// c10d's header shows Gloo only where this is defined; the code is in libtorch_cpu.
#define USE_C10D_GLOO
#include "hyperion/comm/gloo_transport.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

#include "hyperion/comm/c10d_transport.h"

namespace hyperion::comm {

std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               const std::string& address, std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  const auto options = ProcessGroupGloo::Options::create(timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? ProcessGroupGloo::createDeviceForInterface(interface)
                                                  : ProcessGroupGloo::createDeviceForHostname(address));
  auto group = c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
  return make_c10d_transport("gloo", std::move(group), /*queues=*/false, store);
}

}  // namespace hyperion::comm

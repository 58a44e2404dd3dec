// c10d's header shows Gloo only where this is defined; the code is in libtorch_cpu.
#define USE_C10D_GLOO
#include "hyperion/comm/gloo_transport.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <mutex>

#include "hyperion/comm/c10d_transport.h"
#include "hyperion/comm/listeners.h"

namespace hyperion::comm {
namespace {

using c10d::ProcessGroupGloo;

struct ListeningDevice {
  std::shared_ptr<gloo::transport::Device> device;
  std::set<int> listeners;  // what it opened for its peers
};

ListeningDevice make_listening_device(const std::string& address) {
  static std::mutex one_at_a_time;  // so that no other's listener is taken for this one's
  const std::lock_guard lock(one_at_a_time);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const auto before = listening_sockets();
  ListeningDevice made{interface != nullptr ? ProcessGroupGloo::createDeviceForInterface(interface)
                                            : ProcessGroupGloo::createDeviceForHostname(address),
                       listening_sockets()};
  for (const int other : before) made.listeners.erase(other);
  return made;
}

}  // namespace

std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               const std::string& address, std::chrono::milliseconds timeout) {
  const auto options = ProcessGroupGloo::Options::create(timeout);
  const auto [device, listeners] = make_listening_device(address);
  options->devices.push_back(device);
  auto group = c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
  close_ports(listeners);  // every peer is connected now, and no other will come
  return make_c10d_transport("gloo", std::move(group), /*queues=*/false, store);
}

}  // namespace hyperion::comm

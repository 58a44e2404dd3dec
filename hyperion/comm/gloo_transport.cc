// c10d's header shows Gloo only where this is defined; the code is in libtorch_cpu.
#define USE_C10D_GLOO
#include "hyperion/comm/gloo_transport.h"

#include <unistd.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <tuple>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/c10d_transport.h"
#include "hyperion/comm/listeners.h"
#include "hyperion/comm/waiting.h"

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
                       : address.empty()    ? ProcessGroupGloo::createDefaultDevice()
                                            : ProcessGroupGloo::createDeviceForHostname(address),
                       listening_sockets()};
  for (const int other : before) made.listeners.erase(other);
  return made;
}

bool tells_of_descriptors(std::string_view thrown) {
  return thrown.find(std::strerror(EMFILE)) != thrown.npos || thrown.find(std::strerror(ENFILE)) != thrown.npos;
}

base::Error no_descriptor_left() {
  return base::Error("no descriptor is left to connect with another rank", base::descriptor_hint());
}

// Gloo's own thread throws where nobody can catch it: where a peer sends more than was asked for, and where strangers
// who came while a group was joined have used up all descriptors.
void explain_gloo() {
  static const std::terminate_handler before = std::get_terminate();
  std::set_terminate([] {
    try {
      if (std::current_exception()) std::rethrow_exception(std::current_exception());
    } catch (const std::exception& error) {
      const std::string_view thrown = error.what();
      const bool mismatch = thrown.find("collective mismatch") != thrown.npos;
      if (!mismatch && !tells_of_descriptors(thrown)) before();
      const std::string text = base::error_text(
          mismatch ? base::Error(base::format("a rank asks for another operation, shape or type than this one, which "
                                              "waited {}",
                                              waiting_text()),
                                 "in training, --parallel.check_calls=true names that rank")
                   : no_descriptor_left());
      std::fputs(text.c_str(), stderr);
      std::fflush(stderr);
      ::_exit(1);
    } catch (...) {
    }
    before();
  });
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  const std::string& address, std::chrono::milliseconds timeout) {
  static const bool explained = (explain_gloo(), true);
  std::ignore = explained;
  const auto options = ProcessGroupGloo::Options::create(timeout);
  try {
    const auto [device, listeners] = make_listening_device(address);
    options->devices.push_back(device);
    auto group = c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
    close_ports(listeners);  // every peer is connected now, and no other will come
    return group;
  } catch (const std::exception& error) {
    if (tells_of_descriptors(error.what())) throw no_descriptor_left();
    throw;
  }
}

std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               const std::string& address, std::chrono::milliseconds timeout) {
  return make_c10d_transport("gloo", make_gloo_group(store, rank, size, address, timeout), /*stream_ordered=*/false,
                             store);
}

}  // namespace hyperion::comm

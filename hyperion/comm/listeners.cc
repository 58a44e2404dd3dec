#include "hyperion/comm/listeners.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "hyperion/host/system_files.h"

namespace hyperion::comm {
namespace {

std::vector<int> open_descriptors() {
  std::vector<int> open;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored))
    if (const auto number = host::whole_number(entry.path().filename().string()))
      open.push_back(static_cast<int>(*number));
  return open;
}

bool accepts_tcp(int descriptor) {
  int accepts = 0, domain = 0;
  socklen_t size = sizeof accepts;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts != 0 &&
         ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         (domain == AF_INET || domain == AF_INET6);
}

// The event queue that watches the descriptor, told to tell nothing more of it; -1: none does.
int quietened_queue(int descriptor) {
  epoll_event nothing{};
  for (const int queue : open_descriptors())
    if (::epoll_ctl(queue, EPOLL_CTL_MOD, descriptor, &nothing) == 0) return queue;
  return -1;
}

// One that answers an accept that is under way with "nobody there". The system names it, and nobody is told the name;
// whoever guessed it would wait unheard.
int unreachable_listener() {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr unnamed{AF_UNIX, {}};
  if (listener < 0 || (::bind(listener, &unnamed, sizeof unnamed.sa_family) == 0 && ::listen(listener, 0) == 0))
    return listener;
  ::close(listener);
  return -1;
}

}  // namespace

std::set<int> listening_sockets() {
  std::set<int> listeners;
  for (const int descriptor : open_descriptors())
    if (accepts_tcp(descriptor)) listeners.insert(descriptor);
  return listeners;
}

void close_ports(const std::set<int>& listeners) {
  for (const int listener : listeners) {
    const int instead = unreachable_listener();
    if (instead < 0) return;
    // The queue forgets a socket once its last descriptor is gone; its owner will take the descriptor off the queue
    // all the same, and counts on finding it there.
    epoll_event nothing{};
    if (const int queue = quietened_queue(listener); queue >= 0 && ::dup3(instead, listener, O_CLOEXEC) == listener)
      ::epoll_ctl(queue, EPOLL_CTL_ADD, listener, &nothing);
    ::close(instead);
  }
}

}  // namespace hyperion::comm

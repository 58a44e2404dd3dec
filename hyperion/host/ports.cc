#include "hyperion/host/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hyperion/base/error.h"

namespace hyperion::host {
namespace {

// The port listened on for a moment, 0 where it was refused.
int listen_for_a_moment(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return 0;
  // As c10d's store does: a connection that lingers from an earlier run must not count as taken.
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  const bool fine =
      ::bind(socket, plain, size) == 0 && ::listen(socket, 1) == 0 && ::getsockname(socket, plain, &size) == 0;
  ::close(socket);
  return fine ? ntohs(address.sin_port) : 0;
}

}  // namespace

bool port_is_free(int port) { return port >= 1 && port <= 65535 && listen_for_a_moment(port) == port; }

int find_free_port() {
  const int port = listen_for_a_moment(0);
  if (port == 0) throw base::Error("no free TCP port on 127.0.0.1", "check that the loopback interface is up");
  return port;
}

}  // namespace hyperion::host

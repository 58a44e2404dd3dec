#include "hyperion/comm/listeners.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace hyperion::comm {
namespace {

// A port of this machine, listened on.
struct Port {
  Port() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_TRUE(::bind(socket, plain, size) == 0 && ::listen(socket, 8) == 0 &&
                ::getsockname(socket, plain, &size) == 0);
  }
  ~Port() { ::close(socket); }
  bool connects() const {
    const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool reached = ::connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(stranger);
    return reached;
  }
  int socket;
  sockaddr_in address{};
};

TEST(Listeners, are_found_among_all_descriptors) {
  const auto before = listening_sockets();
  const Port port;
  auto after = listening_sockets();
  EXPECT_EQ(after.erase(port.socket), 1u);
  EXPECT_EQ(after, before);
}

TEST(Listeners, that_are_watched_refuse_once_closed_and_their_owner_sees_nothing_new) {
  const Port port;
  const int queue = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(queue, EPOLL_CTL_ADD, port.socket, &event), 0);
  EXPECT_TRUE(port.connects());
  close_ports({port.socket});
  EXPECT_FALSE(port.connects());
  EXPECT_EQ(::epoll_wait(queue, &event, 1, 50), 0) << "no event, neither of the end";
  EXPECT_EQ(::accept(port.socket, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN) << "an accept that was under way finds nobody";
  EXPECT_EQ(::epoll_ctl(queue, EPOLL_CTL_DEL, port.socket, nullptr), 0) << "as Gloo does in the end";
  EXPECT_TRUE(listening_sockets().count(port.socket) == 0);
  ::close(queue);
}

TEST(Listeners, that_nobody_watches_are_left_alone) {
  const Port port;
  close_ports({port.socket});
  EXPECT_TRUE(port.connects());
}

}  // namespace
}  // namespace hyperion::comm

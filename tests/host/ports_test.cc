#include "hyperion/host/ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hyperion::host {
namespace {

TEST(ports, a_port_listened_on_is_taken_and_free_again_after) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(listener, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, plain, size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, plain, &size), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_FALSE(port_is_free(port));
  ::close(listener);
  EXPECT_TRUE(port_is_free(port));
}

TEST(ports, numbers_that_are_no_ports_are_not_free) {
  EXPECT_FALSE(port_is_free(0));
  EXPECT_FALSE(port_is_free(-1));
  EXPECT_FALSE(port_is_free(65536));
}

TEST(ports, a_found_port_can_be_listened_on) {
  const int port = find_free_port();
  EXPECT_GT(port, 0);
  EXPECT_TRUE(port_is_free(port));
}

}  // namespace
}  // namespace hyperion::host

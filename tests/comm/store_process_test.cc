#include "hyperion/comm/store_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "hyperion/comm/store_connection.h"
#include "hyperion/comm/store_protocol.h"
#include "hyperion/host/ports.h"

namespace hyperion::comm {
namespace {

using std::chrono::milliseconds;

constexpr const char* kSecret = "a secret of this test";

TEST(StoreProcess, serves_while_its_rank_is_frozen_and_ends_after_it) {
  const int port = host::find_free_port();
  const pid_t rank = ::fork();
  if (rank == 0) {
    fork_store({"127.0.0.1", port, kSecret});
    for (;;) ::pause();
  }
  const StoreAddress address{"127.0.0.1", port, kSecret};
  const auto count = FrameWriter(Ask::count).bytes();
  { StoreConnection early(address, milliseconds(10'000)); }
  ::kill(rank, SIGSTOP);
  {
    StoreConnection client(address, milliseconds(10'000));
    EXPECT_EQ(client.ask(count, milliseconds(10'000)).size(), 9u);
    ::kill(rank, SIGKILL);
    ::waitpid(rank, nullptr, 0);
    EXPECT_EQ(client.ask(count, milliseconds(10'000)).size(), 9u) << "whoever still uses it may finish";
  }
  for (int i = 0; i < 500 && !host::port_is_free(port); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(host::port_is_free(port)) << "it is gone once nobody uses it";
}

}  // namespace
}  // namespace hyperion::comm

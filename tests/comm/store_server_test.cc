// The store among strangers: whoever cannot prove that he knows the secret gets nothing and disturbs nobody.
#include "hyperion/comm/store_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/comm/heartbeat.h"
#include "hyperion/comm/store_connection.h"
#include "hyperion/comm/store_protocol.h"
#include "tests/support/seed.h"

namespace hyperion::comm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kServerSecret = "a secret of this test";

// A bare socket to the store.
class Stranger {
 public:
  explicit Stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Stranger() { ::close(socket_); }
  Stranger(Stranger&& other) noexcept : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  bool connected() const { return connected_; }
  void send(std::string_view bytes) const { std::ignore = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // All that comes until the other end closes; "still open" in its place if it does not within the time.
  std::string until_closed(int milliseconds = 5000) const {
    std::string all;
    char piece[4096];
    for (;;) {
      pollfd one{socket_, POLLIN, 0};
      if (::poll(&one, 1, milliseconds) <= 0) return "still open";
      const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
      if (got <= 0) return all;
      all.append(piece, static_cast<size_t>(got));
    }
  }
  std::string receive(size_t count) const {
    std::string bytes(count, '\0');
    const ssize_t got = ::recv(socket_, bytes.data(), count, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

 private:
  int socket_;
  bool connected_ = false;
};

class StoreServerTest : public ::testing::Test {
 protected:
  StoreServerTest() : server_(options()) { server_.start(); }
  static StoreServerOptions options() {
    StoreServerOptions options;
    options.secret = kServerSecret;
    options.handshake_seconds = 0.3;
    options.most_strangers = 32;
    return options;
  }
  StoreAddress address(const std::string& secret = kServerSecret) const {
    return {"127.0.0.1", server_.port(), secret};
  }
  static std::string set_frame() { return std::move(FrameWriter(Ask::set).text("key").text("value")).bytes(); }
  // A rank comes and finds the store in order.
  void expect_service() const {
    StoreConnection rank(address(), milliseconds(5000));
    EXPECT_EQ(rank.ask(set_frame(), milliseconds(5000)), std::string(1, '\0'));
  }
  StoreServer server_;
};

TEST_F(StoreServerTest, listens_only_where_told) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server_.port()));
  ASSERT_EQ(::inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_NE(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
  expect_service();
}

TEST_F(StoreServerTest, an_address_of_another_machine_is_an_error_with_a_hint) {
  for (const char* address : {"192.0.2.1", "no such host.invalid"}) {
    try {
      StoreServer elsewhere({address, 0, kServerSecret});
      ADD_FAILURE() << address;
    } catch (const base::Error& error) {
      EXPECT_FALSE(error.hint().empty());
    }
  }
  EXPECT_THROW(StoreServer({"127.0.0.1", server_.port(), kServerSecret}), base::Error) << "the port is taken";
}

TEST_F(StoreServerTest, the_wrong_secret_is_refused_and_said) {
  try {
    StoreConnection stranger(address("another secret"), milliseconds(5000));
    FAIL();
  } catch (const StoreLost& error) {
    EXPECT_NE(std::string(error.what()).find("its secret is another"), std::string::npos) << error.what();
  }
  expect_service();
}

TEST_F(StoreServerTest, a_stranger_reads_a_greeting_and_nothing_else) {
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n") + std::string(64, 'x'),
                                   std::string(100'000, '\xff'), set_frame() + std::string(64, '\0')}) {
    const Stranger stranger(server_.port());
    stranger.send(words);
    const std::string heard = stranger.until_closed();
    EXPECT_LE(heard.size(), kGreeting.size() + kNonce + kRefusal.size()) << heard;
  }
  expect_service();
}

TEST_F(StoreServerTest, a_proof_heard_once_is_of_no_use_again) {
  // What a rank would send, replayed on a new connection: the server's challenge is another.
  const Stranger first(server_.port());
  const std::string greeting = first.receive(kGreeting.size() + kNonce);
  const std::string theirs = greeting.substr(kGreeting.size()), ours(kNonce, 'c');
  const Digest mine = proof(kServerSecret, "client", theirs, ours);
  const std::string words = ours + std::string(mine.begin(), mine.end());
  first.send(words);
  ASSERT_EQ(first.receive(sizeof(Digest)).size(), sizeof(Digest)) << "the proof itself is right";
  const Stranger second(server_.port());
  second.send(words);
  EXPECT_TRUE(second.until_closed().ends_with(kRefusal));
}

TEST_F(StoreServerTest, a_server_that_does_not_know_the_secret_is_not_believed) {
  StoreServer other({"127.0.0.1", 0, "another secret"});
  other.start();
  EXPECT_THROW(StoreConnection({"127.0.0.1", other.port(), kServerSecret}, milliseconds(3000)), StoreLost);
}

TEST_F(StoreServerTest, the_silent_and_the_half_spoken_are_dropped_and_stall_nobody) {
  std::vector<Stranger> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.emplace_back(server_.port());
    if (i % 2 == 1) strangers.back().send(std::string(static_cast<size_t>(i), 'h'));
  }
  expect_service();
  for (const auto& stranger : strangers) EXPECT_NE(stranger.until_closed(), "still open");
  expect_service();
}

TEST_F(StoreServerTest, a_flood_of_strangers_keeps_no_rank_out) {
  std::atomic<bool> over{false};
  std::vector<std::thread> floods;
  for (int thread = 0; thread < 3; ++thread)
    floods.emplace_back([&] {
      std::deque<Stranger> held;
      while (!over) {
        held.emplace_back(server_.port());
        held.back().send("garbage");
        if (held.size() > 100) held.pop_front();
      }
    });
  for (int i = 0; i < 20; ++i) expect_service();
  over = true;
  for (auto& flood : floods) flood.join();
  expect_service();
}

TEST_F(StoreServerTest, random_frames_of_a_rank_are_answered_or_end_only_its_own_connection) {
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  SCOPED_TRACE(testing::seed());
  for (int i = 0; i < 300; ++i) {
    StoreConnection rank(address(), milliseconds(5000));
    std::string body(random() % 40, '\0');
    for (auto& byte : body) byte = static_cast<char>(random() % 4 == 0 ? random() : random() % 14);
    std::string frame(4, '\0');
    frame[0] = static_cast<char>(body.size());
    if (i % 10 == 0) frame[3] = '\x7f';  // two gigabytes to come
    // A wait for keys that never come is no error; it is left.
    try {
      rank.ask(frame + body, milliseconds(30));
    } catch (const StoreLost&) {
    }
  }
  expect_service();
}

TEST_F(StoreServerTest, a_rank_that_leaves_while_it_waits_is_forgotten) {
  for (int i = 0; i < 50; ++i) {
    StoreConnection rank(address(), milliseconds(5000));
    const auto wait = std::move(FrameWriter(Ask::wait).number(60'000).list(std::vector<std::string>{"late"})).bytes();
    EXPECT_THROW(rank.ask(wait, milliseconds(1)), StoreLost);
  }
  StoreConnection rank(address(), milliseconds(5000));
  EXPECT_EQ(rank.ask(std::move(FrameWriter(Ask::set).text("late").text("x")).bytes(), milliseconds(5000)).size(), 1u);
  expect_service();
}

TEST_F(StoreServerTest, requests_sent_in_one_go_are_answered_in_turn) {
  const Stranger rank(server_.port());
  const std::string greeting = rank.receive(kGreeting.size() + kNonce), ours(kNonce, 'c');
  const Digest mine = proof(kServerSecret, "client", greeting.substr(kGreeting.size()), ours);
  std::string all = ours + std::string(mine.begin(), mine.end());
  for (int i = 0; i < 100; ++i) all += std::move(FrameWriter(Ask::add).text("n").number(1)).bytes();
  rank.send(all);
  rank.receive(sizeof(Digest));
  for (uint64_t i = 1; i <= 100; ++i) {
    const std::string answer = rank.receive(4 + 1 + 8);
    FrameReader reader(std::string_view(answer).substr(4));
    EXPECT_EQ(reader.kind(), static_cast<uint8_t>(Answer::done));
    EXPECT_EQ(reader.number(), i);
  }
}

TEST_F(StoreServerTest, heartbeats_tell_who_is_there_and_who_fell_silent) {
  EXPECT_TRUE(server_.present().empty());
  auto first = std::make_unique<Heartbeat>(address(), 3, milliseconds(10), [](const std::string&) {});
  auto frozen = std::make_unique<StoreConnection>(address(), milliseconds(5000));
  frozen->ask(std::move(FrameWriter(Ask::beat).number(5)).bytes(), milliseconds(5000));
  EXPECT_EQ(server_.present(), (std::vector<int>{3, 5}));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(server_.silent(0.25), (std::vector<int>{5}));
  first.reset();
  EXPECT_EQ(server_.present(), (std::vector<int>{5})) << "who leaves in good order is not missed";
  frozen.reset();
  for (int i = 0; i < 500 && !server_.present().empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(server_.present().empty()) << "nor who has ended: that is seen elsewhere";
  EXPECT_EQ(server_.seen(), (std::vector<int>{3, 5}));
}

TEST(StoreServerOfTwo, refuses_heartbeats_of_ranks_outside_the_job) {
  StoreServerOptions options{"127.0.0.1", 0, kServerSecret};
  options.ranks = 2;
  StoreServer server(options);
  server.start();
  StoreConnection rank({"127.0.0.1", server.port(), kServerSecret}, milliseconds(5000));
  const auto beat = [&](uint64_t number) {
    const std::string answer = rank.ask(std::move(FrameWriter(Ask::beat).number(number)).bytes(), milliseconds(5000));
    return static_cast<Answer>(FrameReader(answer).kind());
  };
  for (const uint64_t number : {uint64_t{2}, uint64_t{7}, ~uint64_t{0}, (uint64_t{1} << 32) + 1})
    EXPECT_EQ(beat(number), Answer::refused) << number;
  EXPECT_TRUE(server.seen().empty());
  EXPECT_EQ(beat(1), Answer::done);
  EXPECT_EQ(server.seen(), (std::vector<int>{1}));
}

TEST(StoreServerOfTwo, knows_a_launcher_that_left_from_one_that_is_lost) {
  StoreServerOptions options{"127.0.0.1", 0, kServerSecret};
  options.ranks = 2, options.launchers = 2;
  StoreServer server(options);
  server.start();
  const auto launcher = [&](uint64_t number) {
    auto connection =
        std::make_unique<StoreConnection>(StoreAddress{"127.0.0.1", server.port(), kServerSecret}, milliseconds(5000));
    connection->ask(std::move(FrameWriter(Ask::beat).number(number)).bytes(), milliseconds(5000));
    return connection;
  };
  auto first = launcher(2), second = launcher(3);
  EXPECT_TRUE(server.lost_launchers().empty());
  EXPECT_TRUE(server.seen().empty() && server.present().empty()) << "they are no ranks";
  first->ask(std::move(FrameWriter(Ask::leave).number(2)).bytes(), milliseconds(5000));
  first.reset(), second.reset();
  for (int i = 0; i < 500 && server.lost_launchers().empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(server.lost_launchers(), (std::vector<int>{1}));
}

TEST_F(StoreServerTest, the_end_of_the_store_is_told_to_the_rank) {
  auto server = std::make_unique<StoreServer>(StoreServerOptions{"127.0.0.1", 0, kServerSecret});
  server->start();
  std::atomic<int> told{0};
  Heartbeat heartbeat({"127.0.0.1", server->port(), kServerSecret}, 0, milliseconds(10),
                      [&](const std::string&) { ++told; });
  server.reset();
  for (int i = 0; i < 500 && told == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(told, 1);
}

TEST(StoreConnection, waits_for_a_store_that_starts_late_and_says_where_none_came) {
  int port = 0;
  {
    StoreServer probe({"127.0.0.1", 0, kServerSecret});
    port = probe.port();
  }
  std::unique_ptr<StoreServer> late;
  std::thread starter([&] {
    std::this_thread::sleep_for(milliseconds(200));
    late = std::make_unique<StoreServer>(StoreServerOptions{"127.0.0.1", port, kServerSecret});
    late->start();
  });
  EXPECT_NO_THROW(StoreConnection({"127.0.0.1", port, kServerSecret}, milliseconds(10000)));
  starter.join();
  late.reset();
  try {
    StoreConnection nobody({"127.0.0.1", port, kServerSecret}, milliseconds(100));
    FAIL();
  } catch (const StoreLost& error) {
    EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + std::to_string(port)), std::string::npos);
    EXPECT_FALSE(error.hint().empty());
  }
}

}  // namespace
}  // namespace hyperion::comm

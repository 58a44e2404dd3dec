// What strangers get, what they can cost, and what readers of events are told; over real sockets.
#include "hyperion/web/server.h"

#include <atomic>
#include <fstream>
#include <list>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "tests/web/support_server.h"

namespace hyperion::web {
namespace {

using std::chrono::milliseconds;
using testing::ask;
using testing::Client;
using testing::ServerThread;

constexpr const char* kToken = "ForTheseTestsAlone-ForTheseTestsAlone-00000";

ServerOptions options(Limits limits = {}) { return {.token = kToken, .limits = limits}; }

// Says the path it was asked for, segment by segment.
Reply echo(const Request& request) {
  std::string body = "path";
  for (const auto& part : request.path) body += "|" + part;
  for (const auto& [name, value] : request.query) body += "?" + name + "=" + value;
  return {200, "text/plain", body};
}

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + "\r\n";
}
std::string bearer() { return std::string("Authorization: Bearer ") + kToken + "\r\n"; }

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Server, answers_who_brings_the_token) {
  const ServerThread server(options(), echo);
  const auto reply = ask(server.port(), get("/api/run/a%20b%2F..?width=7", bearer()));
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 ")) << reply;
  EXPECT_TRUE(has(reply, "path|api|run|a b/..?width=7")) << reply;
  EXPECT_TRUE(has(reply, "Content-Security-Policy: default-src 'none';")) << reply;
  EXPECT_TRUE(has(reply, "X-Content-Type-Options: nosniff")) << reply;
}

TEST(Server, refuses_without_the_token_or_with_another) {
  const ServerThread server(options(), echo);
  const std::string cookie = "Cookie: hyperion_" + std::to_string(server.port()) + "=";
  const std::string shorter(kToken, 42);
  for (const auto& more :
       {std::string(), std::string("Authorization: Bearer x\r\n"), "Authorization: Bearer " + shorter + "\r\n",
        std::string("Authorization: Basic ") + kToken + "\r\n", cookie + "\r\n", cookie + shorter + "\r\n",
        std::string("Cookie: hyperion_1=") + kToken + "\r\n"})
    for (const char* target : {"/", "/app.js", "/api/runs", "/events", "/metrics", "/nowhere"}) {
      const auto reply = ask(server.port(), get(target, more));
      EXPECT_TRUE(reply.starts_with("HTTP/1.1 403 ")) << target << more << reply;
      EXPECT_FALSE(has(reply, "path|")) << reply;
    }
  EXPECT_TRUE(ask(server.port(), get("/?token=x")).starts_with("HTTP/1.1 403 "));
}

TEST(Server, turns_the_token_of_an_address_into_a_cookie) {
  const ServerThread server(options(), echo);
  const auto first = ask(server.port(), get(std::string("/?token=") + kToken));
  EXPECT_TRUE(first.starts_with("HTTP/1.1 303 ")) << first;
  EXPECT_TRUE(has(first, "Location: /\r\n")) << first;
  const std::string cookie = "hyperion_" + std::to_string(server.port()) + "=" + kToken;
  EXPECT_TRUE(has(first, "Set-Cookie: " + cookie + "; Path=/; HttpOnly; SameSite=Strict")) << first;
  EXPECT_TRUE(has(ask(server.port(), get("/x", "Cookie: a=b; " + cookie + "\r\n")), "path|x"));
  EXPECT_TRUE(server.url().ends_with(std::string("/?token=") + kToken));
}

TEST(Server, refuses_names_that_were_made_to_lead_here) {
  const ServerThread server(options(), echo);
  for (const char* host : {"Host: evil.example\r\n", "Host: evil.example:80\r\n", "", "Host: \r\n"}) {
    const auto reply = ask(server.port(), std::string("GET /x HTTP/1.1\r\n") + host + bearer() + "\r\n");
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 403 ")) << reply;
  }
  const auto proxied =
      ask(server.port(), "GET http://evil.example/x HTTP/1.1\r\nHost: 127.0.0.1\r\n" + bearer() + "\r\n");
  EXPECT_TRUE(proxied.starts_with("HTTP/1.1 400 ")) << proxied;
}

TEST(Server, refuses_other_methods) {
  const ServerThread server(options(), echo);
  for (const char* method : {"HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"}) {
    const auto reply =
        ask(server.port(), std::string(method) + " /x HTTP/1.1\r\nHost: localhost\r\n" + bearer() + "\r\n");
    EXPECT_FALSE(reply.starts_with("HTTP/1.1 200")) << reply;
    EXPECT_FALSE(has(reply, "path|")) << reply;
  }
  const auto head = ask(server.port(), "HEAD /x HTTP/1.1\r\nHost: localhost\r\n" + bearer() + "\r\n");
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << "a reply to HEAD has no body: " << head;
  EXPECT_TRUE(has(ask(server.port(), "POST /x HTTP/1.1\r\nHost: localhost\r\n" + bearer() + "\r\n"), "Allow: GET"));
}

TEST(Server, takes_no_body) {
  const ServerThread server(options(), echo);
  const auto sized =
      ask(server.port(), "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" + bearer() + "\r\nhello");
  EXPECT_TRUE(sized.starts_with("HTTP/1.1 413 ")) << sized;
  const auto huge =
      ask(server.port(), "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n" + bearer() + "\r\n");
  EXPECT_TRUE(huge.starts_with("HTTP/1.1 413 ")) << huge;
}

TEST(Server, refuses_what_is_too_long_without_keeping_it) {
  const ServerThread server(options(), echo);
  const size_t before = resident_bytes();
  for (const auto& begin : {std::string("GET /"), std::string("GET / HTTP/1.1\r\nHost: localhost\r\nX: ")}) {
    const Client client(server.port());
    client.send(begin);
    const std::string piece(1 << 20, 'a');
    for (int i = 0; i < 64 && client.send(piece); ++i) {
    }
    const auto reply = client.read_all();
    EXPECT_FALSE(reply.starts_with("HTTP/1.1 200")) << reply;
  }
  EXPECT_LT(resident_bytes(), before + (32 << 20));
}

TEST(Server, paths_are_names_and_never_climb) {
  const ServerThread server(options(), echo);
  EXPECT_TRUE(
      has(ask(server.port(), get("/api/run/%2e%2e/%2e%2e/etc/passwd", bearer())), "path|api|run|..|..|etc|passwd"));
  EXPECT_TRUE(has(ask(server.port(), get("/../../etc/passwd", bearer())), "path|..|..|etc|passwd"));
  EXPECT_TRUE(has(ask(server.port(), get("/a%00b", bearer())), std::string("path|a\0b", 8)));
}

TEST(Server, hangs_up_on_who_does_not_ask_in_time) {
  Limits limits;
  limits.request = milliseconds(300);
  const ServerThread server(options(limits), echo);
  const Client idle(server.port()), slow(server.port());
  std::thread drip([&] {
    for (int i = 0; i < 600 && slow.send(i == 0 ? "GET / HTTP/1.1\r\nX: " : "a"); ++i)
      std::this_thread::sleep_for(milliseconds(50));
  });
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(slow.read_all(), "");
  drip.join();
}

TEST(Server, many_strangers_wait_and_are_let_go_while_others_are_answered) {
  Limits limits;
  limits.connections = 32;
  limits.crowded = milliseconds(100);
  const ServerThread server(options(limits), echo);
  std::list<Client> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(server.port());
  EXPECT_TRUE(has(ask(server.port(), get("/x", bearer())), "path|x"));
  for (const auto& stranger : strangers) EXPECT_EQ(stranger.read_all(), "");
}

TEST(Server, tells_events_to_every_reader_and_notices_who_left) {
  ServerThread server(options(), echo);
  server.set_event("{\"step\":1}");
  auto first = std::make_unique<Client>(server.port());
  const auto second = std::make_unique<Client>(server.port());
  for (const Client* client : {first.get(), second.get()}) {
    client->send(get("/events", bearer()));
    const auto begun = client->read_until("retry:");
    EXPECT_TRUE(has(begun, "Content-Type: text/event-stream")) << begun;
  }
  ASSERT_TRUE(server.has_readers(2));
  server.tell(1);
  for (const Client* client : {first.get(), second.get()})
    EXPECT_TRUE(has(client->read_until("\n\n"), "event: step\ndata: {\"step\":1}\n\n"));
  first.reset();
  EXPECT_TRUE(server.has_readers(1));
}

TEST(Server, a_reader_that_takes_nothing_is_let_go) {
  Limits limits;
  limits.backlog_bytes = 64 << 10;
  ServerThread server(options(limits), echo);
  server.set_event(std::string(16 << 10, 'x'));
  const Client client(server.port());
  client.send(get("/events", bearer()));
  client.read_until("retry:");
  ASSERT_TRUE(server.has_readers(1));
  const size_t before = resident_bytes();
  server.tell(4000);  // 64 MB, of which sockets hold some
  EXPECT_TRUE(server.has_readers(0));
#ifdef __SANITIZE_ADDRESS__
  constexpr size_t kFreed = size_t{256} << 20;  // is kept from use again for a while
#else
  constexpr size_t kFreed = 0;
#endif
  EXPECT_LT(resident_bytes(), before + kFreed + (32 << 20));
}

TEST(Server, what_a_reader_goes_on_to_send_is_not_taken) {
  ServerThread server(options(), echo);
  const Client client(server.port());
  client.send(get("/events", bearer()));
  client.read_until("retry:");
  std::atomic<bool> taken{false};
  std::thread pushing([&] { taken = client.send(std::string(64 << 20, 'x')); });
  for (int i = 0; i < 20; ++i) {
    server.tell(1);
    EXPECT_TRUE(has(client.read_until("event: step"), "event: step"));
  }
  EXPECT_FALSE(taken) << "sockets hold some of it, the server a piece, and the rest waits";
  client.shut();
  pushing.join();
}

TEST(Server, an_error_of_the_handler_is_told_and_the_next_is_answered) {
  const ServerThread server(options(), [](const Request& request) -> Reply {
    if (!request.path.empty()) throw base::Error("the disk is gone");
    return {200, "text/plain", "fine"};
  });
  const auto failed = ask(server.port(), get("/x", bearer()));
  EXPECT_TRUE(failed.starts_with("HTTP/1.1 500 ") && has(failed, "the disk is gone")) << failed;
  EXPECT_TRUE(has(ask(server.port(), get("/", bearer())), "fine"));
}

TEST(Server, an_error_of_a_tick_ends_it) {
  Server server(options(), echo);
  EXPECT_THROW(server.run([]() -> milliseconds { throw base::Error("over"); }, [] { return false; }), base::Error);
}

TEST(Server, says_that_a_port_is_taken) {
  const ServerThread server(options(), echo);
  auto same = options();
  same.port = server.port();
  EXPECT_THROW(Server(same, echo), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::web

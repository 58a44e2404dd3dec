// A small HTTP server for one user of this machine, over libevent: GET alone, on 127.0.0.1 alone, one thread. Every
// request must name this machine in Host and bring the token: as ?token= (which is turned into a cookie), as that
// cookie, or as `Authorization: Bearer`. What a stranger can cost is bounded: the size of a request, the seconds it
// takes, connections at a time.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hyperion::web {

struct Request {
  std::vector<std::string> path;  // "/api/run/a%20b" is {"api", "run", "a b"}; "/" is empty
  std::map<std::string, std::string> query;
};

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8", body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // these win over the server's own of that name
};

struct Limits {
  int connections = 256;                                     // more wait to be accepted
  std::chrono::milliseconds request{10'000}, reply{60'000};  // until one was asked, and until the answer was taken
  std::chrono::milliseconds crowded{1'000};                  // `request` while all connections are taken
  size_t header_bytes = 16 << 10;
  size_t backlog_bytes = 256 << 10;  // of events that a reader does not take; then it must come again
};

struct ServerOptions {
  int port = 0;  // 0: any that is free
  std::string token;
  std::string events_path = "events";
  Limits limits = {};
};

class Server {
 public:
  using Handler = std::function<Reply(const Request&)>;

  // Listens from here on. Throws ConfigError where the port is taken, and where this build has no libevent.
  Server(const ServerOptions& options, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string url() const;  // with the token

  // `first` makes what a new reader of events is told before all others.
  void greet(std::function<std::string()> first);
  // To all readers: whole events as text/event-stream has them.
  void tell(std::string_view events);
  size_t readers() const;

  // Calls `tick` now and then again after as many milliseconds as it says, and answers between, until `stop` says so
  // (asked ten times a second at least).
  void run(const std::function<std::chrono::milliseconds()>& tick, const std::function<bool()>& stop);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

// One event: its name, and data without line ends.
inline std::string event_text(const std::string& name, const std::string& data) {
  return "event: " + name + "\ndata: " + data + "\n\n";
}

}  // namespace hyperion::web

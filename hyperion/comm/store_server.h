// The store where the ranks of a job meet: keys and values over TCP, for those who know the job's secret. It stands in
// a process that no frozen rank can freeze: the launcher, or one forked for it. Free of c10d.
#pragma once
#include <climits>
#include <memory>
#include <string>
#include <vector>

namespace hyperion::comm {

struct StoreServerOptions {
  std::string address = "127.0.0.1";  // the one to listen on; a name is looked up
  int port = 0;                       // 0: one of the system's choosing
  std::string secret;
  size_t most_bytes = size_t{1} << 30;  // of keys and values together; a request beyond is refused
  // Strangers: connections that have not proven yet that they know the secret. Each has this long to do so, and of
  // too many the oldest goes, so that they can neither keep a rank out nor cost memory.
  double handshake_seconds = 5;
  int most_strangers = 256;
  // Who may send heartbeats: ranks 0 to ranks - 1, and the launchers of several machines, numbered on from there.
  int ranks = INT_MAX, launchers = 0;
};

class StoreServer {
 public:
  explicit StoreServer(const StoreServerOptions& options);  // listens; throws Error where it cannot
  ~StoreServer();
  int port() const;
  std::vector<int> descriptors() const;  // all it has open, for a process that keeps nothing else

  void start();  // serves in a thread of its own until destroyed
  // Serves in this thread until `lifeline` can be read or is closed at its other end, and then for as long as clients
  // are connected, but at most `grace_seconds`.
  void serve(int lifeline, double grace_seconds);

  // Ranks that ever sent a heartbeat; those of them that are still there, for the connection it came by is open; and
  // those of these that have been silent for so long: their process is frozen, or their machine lost.
  std::vector<int> seen() const;
  std::vector<int> present() const;
  std::vector<int> silent(double seconds) const;
  // Launchers, by number, whose connection ended before they said that they leave: killed, or their machine is lost.
  std::vector<int> lost_launchers() const;

  // The answer to every heartbeat from now on tells why the job is over.
  void tell_end(const std::string& why);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace hyperion::comm

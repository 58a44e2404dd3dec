#include "hyperion/comm/store_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/comm/store_protocol.h"
#include "hyperion/comm/store_values.h"

namespace hyperion::comm {
namespace {

using base::format;
using Id = uint64_t;  // of a connection, never used again

constexpr Id kListener = 0, kLifeline = 1, kFirstConnection = 2;
constexpr double kAcceptPause = 0.1;  // when the system has no descriptor left
constexpr int kMostEvents = 64;
constexpr size_t kMostWords = 2000;

using base::now;

struct Connection {
  int socket = -1;
  bool trusted = false;
  std::string nonce;  // ours, until it is trusted
  std::string in, out;
  bool waits = false;     // for keys: nothing more is read until it is answered
  int rank = -1;          // whose heartbeats come by it; -1: nobody's
  double deadline = 0;    // 0: none
  uint32_t interest = 0;  // as epoll has it
};

int listen_on(const StoreServerOptions& options) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int failed = ::getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (failed != 0)
    throw base::Error(format("{} is no address to listen on: {}", options.address, ::gai_strerror(failed)),
                      "name an address of this machine, such as 127.0.0.1");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (socket >= 0 && ::bind(socket, found->ai_addr, found->ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0)
    return socket;
  const int code = errno;
  if (socket >= 0) ::close(socket);
  throw base::Error(format("the store cannot listen on {}:{}: {}", options.address, options.port, std::strerror(code)),
                    base::lacks_descriptors(code) ? base::descriptor_hint()
                    : code == EADDRINUSE
                        ? "another job may use that port: choose another one (MASTER_PORT, or launch --port)"
                        : "name an address of this machine that the other ranks can reach");
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

// One thread, many connections, none of which it ever waits for.
class StoreServer::Loop {
 public:
  explicit Loop(const StoreServerOptions& options)
      : options_(options), values_(options.most_bytes), listener_(listen_on(options)), port_(port_of(listener_)) {
    poll_ = ::epoll_create1(EPOLL_CLOEXEC);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    if (poll_ < 0 || stop_ < 0)
      throw base::Error(format("no event queue for the store: {}", std::strerror(errno)), base::descriptor_hint());
    watch(listener_, kListener, EPOLLIN, EPOLL_CTL_ADD);
  }

  ~Loop() {
    const uint64_t one = 1;
    if (thread_.joinable() && ::write(stop_, &one, sizeof one) == sizeof one) thread_.join();
    for (auto& [id, connection] : connections_) ::close(connection.socket);
    for (const int descriptor : {listener_, poll_, stop_}) ::close(descriptor);
  }

  int port() const { return port_; }
  std::vector<int> descriptors() const { return {listener_, poll_, stop_}; }

  void start() {
    thread_ = std::thread([this] { serve(stop_, 0); });
  }

  void serve(int lifeline, double grace_seconds) {
    watch(lifeline, kLifeline, EPOLLIN, EPOLL_CTL_ADD);
    double end = INFINITY;
    while (now() < end && (std::isinf(end) || trusted_ > 0)) {
      epoll_event events[kMostEvents];
      const int count = ::epoll_wait(poll_, events, kMostEvents, milliseconds_to_next(end));
      for (int i = 0; i < count; ++i) {
        if (events[i].data.u64 == kLifeline) {
          watch(lifeline, kLifeline, 0, EPOLL_CTL_DEL);
          end = now() + grace_seconds;
        } else if (events[i].data.u64 == kListener) {
          accept_all();
        } else {
          advance(events[i].data.u64, events[i].events);
        }
      }
      pass_deadlines();
    }
  }

  std::vector<int> seen() const {
    const std::lock_guard lock(beats_mutex_);
    return {seen_.begin(), seen_.lower_bound(options_.ranks)};
  }

  std::vector<int> lost_launchers() const {
    const std::lock_guard lock(beats_mutex_);
    return {lost_.begin(), lost_.end()};
  }

  std::vector<int> present() const { return silent(-1); }

  void tell_end(const std::string& why) {
    const std::lock_guard lock(beats_mutex_);
    if (end_.empty()) end_ = why.substr(0, kMostWords);
  }

  std::vector<int> silent(double seconds) const {
    const std::lock_guard lock(beats_mutex_);
    std::vector<int> ranks;
    for (const auto& [rank, at] : beats_)
      if (rank < options_.ranks && now() - at >= seconds) ranks.push_back(rank);
    return ranks;
  }

 private:
  void watch(int descriptor, Id id, uint32_t interest, int operation) const {
    epoll_event event{};
    event.events = interest;
    event.data.u64 = id;
    ::epoll_ctl(poll_, operation, descriptor, &event);
  }

  int milliseconds_to_next(double end) const {
    const double first = std::min(
        {end, deadlines_.empty() ? INFINITY : deadlines_.begin()->first, accept_again_ > 0 ? accept_again_ : INFINITY});
    return std::isinf(first) ? -1 : static_cast<int>(std::clamp(std::ceil((first - now()) * 1000), 0.0, 60'000.0));
  }

  void set_deadline(Id id, Connection& connection, double at) {
    if (connection.deadline > 0) deadlines_.erase({connection.deadline, id});
    connection.deadline = at;
    if (at > 0) deadlines_.insert({at, id});
  }

  void pass_deadlines() {
    while (!deadlines_.empty() && deadlines_.begin()->first <= now()) {
      const Id id = deadlines_.begin()->second;
      Connection& connection = connections_.at(id);
      if (!connection.trusted) {
        drop(id);
        continue;
      }
      reply(id, connection, values_.timed_out(id));
      advance(id, 0);
    }
    if (accept_again_ > 0 && now() >= accept_again_) {
      accept_again_ = 0;
      watch(listener_, kListener, EPOLLIN, EPOLL_CTL_MOD);
    }
  }

  void accept_all() {
    // Fewer at a time than may wait, so that no newcomer is pushed out before it was listened to.
    for (int turn = 0; turn < std::clamp(options_.most_strangers / 4, 1, kMostEvents); ++turn) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket >= 0) {
        greet(socket);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        tell_of_shortage(errno);
        while (!strangers_.empty()) drop(*strangers_.begin());
        accept_again_ = now() + kAcceptPause;
        watch(listener_, kListener, 0, EPOLL_CTL_MOD);
        return;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      }
    }
  }

  void tell_of_shortage(int code) {
    if (std::exchange(shortage_told_, true)) return;
    base::log_warn(format("the store can take no more connections: {}{}", std::strerror(code),
                          base::lacks_descriptors(code) ? "; " + base::descriptor_hint() : ""));
  }

  void greet(int socket) {
    const int yes = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    while (!strangers_.empty() && static_cast<int>(strangers_.size()) >= options_.most_strangers)
      drop(*strangers_.begin());
    const Id id = next_++;
    Connection& connection = connections_[id];
    connection.socket = socket;
    connection.nonce = random_bytes(kNonce);
    connection.out = std::string(kGreeting) + connection.nonce;
    connection.interest = EPOLLIN;
    strangers_.insert(id);
    watch(socket, id, connection.interest, EPOLL_CTL_ADD);
    set_deadline(id, connection, now() + options_.handshake_seconds);
    advance(id, 0);
  }

  void drop(Id id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    values_.forget(id);
    set_deadline(id, found->second, 0);
    miss(found->second.rank);
    if (found->second.trusted)
      --trusted_;
    else
      strangers_.erase(id);
    ::close(found->second.socket);
    connections_.erase(found);
  }

  // Reads and writes what can be, and answers what was asked.
  void advance(Id id, uint32_t events) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) return drop(id);
    if ((events & (EPOLLIN | EPOLLRDHUP)) != 0 && !receive(connection)) return drop(id);
    do {
      if (!send(connection)) return drop(id);
    } while (!connection.waits && connection.out.empty() && understand(id, connection));
    if (connections_.count(id) == 0) return;
    // Whoever waits, or does not take its answer, is not read from; its end shows all the same.
    const bool busy = connection.waits || !connection.out.empty();
    const uint32_t interest =
        EPOLLRDHUP | (busy ? 0u : uint32_t{EPOLLIN}) | (connection.out.empty() ? 0u : uint32_t{EPOLLOUT});
    if (interest != std::exchange(connection.interest, interest)) watch(connection.socket, id, interest, EPOLL_CTL_MOD);
  }

  // False once the other end is gone. A frame's worth at a time is taken, a stranger's proof at most.
  static bool receive(Connection& connection) {
    const size_t most = connection.trusted ? kMostFrame + 4 : kNonce + sizeof(Digest);
    char bytes[1 << 16];
    while (connection.in.size() < most) {
      const ssize_t got = ::recv(connection.socket, bytes, std::min(sizeof bytes, most - connection.in.size()), 0);
      if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      if (got == 0) return false;
      connection.in.append(bytes, static_cast<size_t>(got));
    }
    return true;
  }

  static bool send(Connection& connection) {
    size_t sent = 0;
    while (sent < connection.out.size()) {
      const ssize_t now_sent =
          ::send(connection.socket, connection.out.data() + sent, connection.out.size() - sent, MSG_NOSIGNAL);
      if (now_sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
      if (now_sent < 0) break;
      sent += static_cast<size_t>(now_sent);
    }
    connection.out.erase(0, sent);
    return true;
  }

  // Whether something whole was there, and is dealt with.
  bool understand(Id id, Connection& connection) {
    if (!connection.trusted) return check_proof(id, connection);
    if (connection.in.size() < 4) return false;
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size |= size_t{static_cast<uint8_t>(connection.in[i])} << (8 * i);
    if (size > kMostFrame) return drop(id), false;
    if (connection.in.size() < 4 + size) return false;
    const std::string request = connection.in.substr(4, size);
    connection.in.erase(0, 4 + size);
    answer(id, connection, request);
    return true;
  }

  bool check_proof(Id id, Connection& connection) {
    Digest told;
    if (connection.in.size() < kNonce + told.size()) return false;
    const std::string theirs = connection.in.substr(0, kNonce);
    std::memcpy(told.data(), connection.in.data() + kNonce, told.size());
    if (!same_digest(told, proof(options_.secret, "client", connection.nonce, theirs))) {
      connection.out.assign(kRefusal);
      send(connection);
      return drop(id), false;
    }
    connection.in.erase(0, kNonce + told.size());
    const Digest ours = proof(options_.secret, "server", connection.nonce, theirs);
    connection.out.append(reinterpret_cast<const char*>(ours.data()), ours.size());
    connection.trusted = true;
    strangers_.erase(id);
    ++trusted_;
    set_deadline(id, connection, 0);
    return true;
  }

  void answer(Id id, Connection& connection, const std::string& request) {
    FrameReader reader(request);
    const auto kind = static_cast<Ask>(reader.kind());
    if (kind == Ask::beat || kind == Ask::leave) {
      const uint64_t number = reader.number();
      const auto senders = static_cast<uint64_t>(options_.ranks) + static_cast<uint64_t>(options_.launchers);
      if (!reader.fine() || number >= senders) {
        connection.out += std::move(FrameWriter(Answer::refused).text("no such rank is of this job")).bytes();
        return;
      }
      const auto rank = static_cast<int>(number);
      if (kind == Ask::beat)
        hear(rank);
      else
        forget(rank);
      connection.rank = kind == Ask::beat ? rank : -1;
      const std::lock_guard lock(beats_mutex_);
      connection.out += std::move(FrameWriter(Answer::done).text(end_)).bytes();
      return;
    }
    std::vector<Id> woken;
    auto done = values_.handle(request, id, woken);
    connection.waits = done.outcome == StoreValues::Outcome::waits;
    if (connection.waits)
      set_deadline(id, connection, now() + static_cast<double>(done.milliseconds) / 1000);
    else
      connection.out += done.frame;
    for (const Id other : woken) reply(other, connections_.at(other), values_.answer(other));
    for (const Id other : woken) advance(other, 0);
  }

  void hear(int rank) {
    const std::lock_guard lock(beats_mutex_);
    beats_[rank] = now();
    seen_.insert(rank);
  }

  void forget(int rank) {
    const std::lock_guard lock(beats_mutex_);
    beats_.erase(rank);
  }

  void miss(int rank) {
    const std::lock_guard lock(beats_mutex_);
    if (beats_.erase(rank) > 0 && rank >= options_.ranks) lost_.insert(rank - options_.ranks);
  }

  void reply(Id id, Connection& connection, const std::string& frame) {
    connection.waits = false;
    connection.out += frame;
    set_deadline(id, connection, 0);
  }

  StoreServerOptions options_;
  StoreValues values_;
  int listener_, port_, poll_ = -1, stop_ = -1;
  std::thread thread_;
  std::map<Id, Connection> connections_;
  std::set<Id> strangers_;  // the oldest first
  int trusted_ = 0;
  std::set<std::pair<double, Id>> deadlines_;
  double accept_again_ = 0;  // 0: it does
  bool shortage_told_ = false;
  Id next_ = kFirstConnection;
  mutable std::mutex beats_mutex_;
  std::map<int, double> beats_;  // rank -> when it was last heard of
  std::set<int> seen_;
  std::set<int> lost_;  // launchers: one that comes again belongs to another start of the job
  std::string end_;     // why the job is over; empty: it is not
};

StoreServer::StoreServer(const StoreServerOptions& options) : loop_(std::make_unique<Loop>(options)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const { return loop_->port(); }
std::vector<int> StoreServer::descriptors() const { return loop_->descriptors(); }
void StoreServer::start() { loop_->start(); }
void StoreServer::serve(int lifeline, double grace_seconds) { loop_->serve(lifeline, grace_seconds); }
void StoreServer::tell_end(const std::string& why) { loop_->tell_end(why); }
std::vector<int> StoreServer::seen() const { return loop_->seen(); }
std::vector<int> StoreServer::present() const { return loop_->present(); }
std::vector<int> StoreServer::silent(double seconds) const { return loop_->silent(seconds); }
std::vector<int> StoreServer::lost_launchers() const { return loop_->lost_launchers(); }

}  // namespace hyperion::comm

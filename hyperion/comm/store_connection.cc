#include "hyperion/comm/store_connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/store_protocol.h"

namespace hyperion::comm {
namespace {

using base::format;
using SteadyClock = std::chrono::steady_clock;

constexpr int kLook = 250;  // milliseconds between two calls of `meanwhile`

}  // namespace

std::string StoreAddress::text() const { return format("{}:{}", host, port); }

StoreConnection::StoreConnection(StoreAddress address, Milliseconds patience, std::function<void()> meanwhile)
    : address_(std::move(address)), meanwhile_(std::move(meanwhile)) {
  const auto end = SteadyClock::now() + patience;
  Milliseconds pause{5};
  for (;;) {
    if (connect(end) && introduce(end)) {
      meanwhile_ = {};
      return;
    }
    close();  // nobody there yet, or too busy to listen
    if (meanwhile_) meanwhile_();
    if (SteadyClock::now() + pause >= end)
      throw StoreLost(format("no store answers at {} after {:.0f} s{}", address_.text(),
                             std::chrono::duration<double>(patience).count(),
                             failure_ == 0 ? "" : format(": {}", std::strerror(failure_))),
                      "check that rank 0 or the launcher runs, and that its address and port can be reached from here");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, Milliseconds{kLook});
  }
}

StoreConnection::~StoreConnection() { close(); }

void StoreConnection::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool StoreConnection::connect(Instant end) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const int unknown = ::getaddrinfo(address_.host.c_str(), std::to_string(address_.port).c_str(), &hints, &found);
  note_failure(unknown == EAI_SYSTEM ? errno : 0);
  if (unknown != 0) return false;  // a pod's name may be known a little later
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    close();
    socket_ = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool begun = socket_ >= 0 && (::connect(socket_, one->ai_addr, one->ai_addrlen) == 0 || errno == EINPROGRESS);
    note_failure(begun ? connection_outcome(end) : errno);
    if (failure_ != 0) continue;
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    return true;
  }
  close();
  return false;
}

int StoreConnection::connection_outcome(Instant end) {
  try {
    wait_for(POLLOUT, end);
  } catch (const StoreLost&) {
    return ETIMEDOUT;
  }
  int code = 0;
  socklen_t size = sizeof code;
  return ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

void StoreConnection::note_failure(int code) {
  failure_ = code;
  if (base::lacks_descriptors(code))
    throw base::Error(
        format("no descriptor is left for a connection to the store at {}: {}", address_.text(), std::strerror(code)),
        base::descriptor_hint());
}

bool StoreConnection::introduce(Instant end) {
  std::string theirs, told;
  const std::string ours = random_bytes(kNonce);
  try {
    const std::string greeting = receive(kGreeting.size() + kNonce, end);
    if (!greeting.starts_with(kGreeting))
      throw base::ConfigError(format("what answers at {} is not this job's store", address_.text()),
                              "another program uses that port: set MASTER_PORT to a free one");
    theirs = greeting.substr(kGreeting.size());
    const Digest mine = proof(address_.secret, "client", theirs, ours);
    send(ours + std::string(mine.begin(), mine.end()), end);
    told = receive(sizeof(Digest), end);
  } catch (const StoreLost&) {
    return false;
  }
  Digest answer;
  std::memcpy(answer.data(), told.data(), answer.size());
  if (same_digest(answer, proof(address_.secret, "server", theirs, ours))) return true;
  throw StoreLost(format("the store at {} is another job's: its secret is another", address_.text()),
                  "start all ranks through one launcher, or give them the same HYPERION_JOB_SECRET");
}

std::string StoreConnection::ask(std::string_view frame, Milliseconds limit) {
  if (frame.size() > kMostFrame + 4)
    throw StoreLost(format("a request of {} bytes is too large for the store", frame.size()), "");
  const auto end = SteadyClock::now() + limit;
  send(frame, end);
  const std::string header = receive(4, end);
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= size_t{static_cast<uint8_t>(header[i])} << (8 * i);
  if (size == 0 || size > kMostFrame)
    throw StoreLost(format("the store at {} answers nonsense", address_.text()), "are both ends the same version?");
  return receive(size, end);
}

void StoreConnection::wait_for(short event, Instant end) {
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(end - SteadyClock::now()).count();
    pollfd one{socket_, event, 0};
    // Looked at even when the time is over: this process may have been stopped while the answer came.
    if (::poll(&one, 1, static_cast<int>(std::clamp<int64_t>(left, 0, meanwhile_ ? kLook : 60'000))) > 0) return;
    if (meanwhile_) meanwhile_();
    if (left <= 0)
      throw StoreLost(format("the store at {} does not answer", address_.text()),
                      "is its process stopped or overloaded?");
  }
}

void StoreConnection::send(std::string_view bytes, Instant end) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(POLLOUT, end);
    } else if (errno != EINTR) {
      throw StoreLost(format("the store at {} is gone: {}", address_.text(), std::strerror(errno)),
                      "its process, the launcher or rank 0's, has ended: what it said last tells why");
    }
  }
}

std::string StoreConnection::receive(size_t count, Instant end) {
  std::string bytes;
  char piece[1 << 16];
  while (bytes.size() < count) {
    const ssize_t got = ::recv(socket_, piece, std::min(sizeof piece, count - bytes.size()), 0);
    if (got > 0) {
      bytes.append(piece, static_cast<size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait_for(POLLIN, end);
    } else if (got == 0 || errno != EINTR) {
      throw StoreLost(format("the store at {} is gone", address_.text()),
                      "its process, the launcher or rank 0's, has ended: what it said last tells why");
    }
  }
  return bytes;
}

}  // namespace hyperion::comm

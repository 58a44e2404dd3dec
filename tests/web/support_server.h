// A server in a thread of its own, and a client that sends what it is told, byte by byte if need be.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "hyperion/web/server.h"

namespace hyperion::testing {

class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    const timeval patience{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void shut() const { ::shutdown(socket_, SHUT_RDWR); }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // What came until the text stands in it, or the end.
  std::string read_until(const std::string& text) const {
    std::string all;
    char piece[4096];
    while (text.empty() || all.find(text) == all.npos) {
      const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
      if (got <= 0) break;
      all.append(piece, static_cast<size_t>(got));
    }
    return all;
  }
  std::string read_all() const { return read_until(""); }

 private:
  int socket_;
  bool connected_ = false;
};

inline std::string ask(int port, const std::string& bytes) {
  const Client client(port);
  client.send(bytes);
  return client.read_all();
}

class ServerThread {
 public:
  ServerThread(const web::ServerOptions& options, web::Server::Handler handler)
      : server_(options, std::move(handler)), thread_([this] {
          server_.run(
              [this] {
                for (auto left = to_tell_.exchange(0); left > 0; --left) server_.tell(web::event_text("step", event_));
                readers_ = server_.readers();
                return std::chrono::milliseconds(5);
              },
              [this] { return stopped_.load(); });
        }) {}
  ~ServerThread() {
    stopped_ = true;
    thread_.join();
  }
  int port() const { return server_.port(); }
  std::string url() const { return server_.url(); }
  void set_event(std::string data) { event_ = std::move(data); }  // before the first is told
  void tell(int times) { to_tell_ += times; }
  // False where it does not come to be within a minute.
  bool has_readers(size_t count) const {
    for (int i = 0; i < 12'000 && readers_ != count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return readers_ == count;
  }

 private:
  web::Server server_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> to_tell_{0};
  std::atomic<size_t> readers_{0};
  std::string event_ = "{}";
  std::thread thread_;
};

}  // namespace hyperion::testing

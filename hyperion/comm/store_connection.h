// One connection to a job's store (store_server.h), authenticated at both ends. Free of c10d.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "hyperion/base/error.h"

namespace hyperion::comm {

struct StoreAddress {
  std::string host;
  int port = 0;
  std::string secret;

  std::string text() const;  // "127.0.0.1:29500"
};

// The store cannot be reached, went away, or is another's.
class StoreLost : public base::Error {
  using Error::Error;
};

// For one thread at a time.
class StoreConnection {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Tries until `patience` is over while nothing listens there: the store may start later than this rank.
  // `meanwhile` is called several times a second, and may throw to give up.
  StoreConnection(StoreAddress address, Milliseconds patience, std::function<void()> meanwhile = {});
  ~StoreConnection();
  StoreConnection(const StoreConnection&) = delete;
  StoreConnection& operator=(const StoreConnection&) = delete;

  // Sends a request and hands over its answer, the frame without its size. Throws StoreLost after `limit`, or where the
  // store is gone: the connection is of no use then.
  std::string ask(std::string_view frame, Milliseconds limit);

 private:
  using Instant = std::chrono::steady_clock::time_point;
  bool connect(Instant end);            // false: nobody there yet
  bool introduce(Instant end);          // false: it hung up
  int connection_outcome(Instant end);  // errno
  void note_failure(int code);          // throws Error where descriptors are lacking
  void send(std::string_view bytes, Instant end);
  std::string receive(size_t count, Instant end);
  void wait_for(short event, Instant end);
  void close();

  StoreAddress address_;
  std::function<void()> meanwhile_;  // until it is connected
  int socket_ = -1;
  int failure_ = 0;  // errno of the last attempt to connect; 0: it was not refused
};

}  // namespace hyperion::comm

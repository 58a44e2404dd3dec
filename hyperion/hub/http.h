// Requests to the hub over libcurl. The token goes to the endpoint's own scheme, host and port alone: redirects are
// followed here, one at a time, and each is asked anew.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "hyperion/base/error.h"

namespace hyperion::hub {

// The network or the server failed in a way that may be over in a moment.
class NetworkError : public base::Error {
  using Error::Error;
};

struct Request {
  std::string url;
  bool head = false;  // only the headers
  bool stay = false;  // a redirect to another host is the answer
  uint64_t from = 0;  // the bytes from here on
};

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const;
};

// A server's words as far as they can be shown on a terminal.
std::string shown_words(std::string_view text);

class HttpClient {
 public:
  // Throws ConfigError where the endpoint is no address that may be used: https, or http to this machine; to another
  // one only where `allow_http` says so.
  HttpClient(std::string endpoint, std::string token, bool allow_http);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  bool has_token() const { return !token_.empty(); }

  // Gives the body of an answer of 2xx to `take`, piece by piece; what it throws ends the request. Any status but
  // redirects comes back. Throws NetworkError, and Interrupted when a stop is asked for.
  using Take = std::function<void(const Response&, std::string_view)>;
  Response send(const Request& request, const Take& take) const;

 private:
  struct Origin {
    std::string scheme, host, port;
    bool operator==(const Origin&) const = default;
  };
  static Origin origin_of(const std::string& url);
  void check(const Origin& origin, const std::string& url) const;
  Response ask_once(const Request& request, const Origin& origin, const Take& take, std::string& redirect) const;

  std::string endpoint_, token_;
  bool allow_http_;
  Origin home_;
  void* handle_;  // kept for its connections
};

}  // namespace hyperion::hub

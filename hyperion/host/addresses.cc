#include "hyperion/host/addresses.h"

#include <netdb.h>
#include <sys/socket.h>

#include <memory>

#include "hyperion/host/system_files.h"

namespace hyperion::host {

std::optional<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const auto port = whole_number(text.substr(colon + 1));
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  // A bare IPv6 address has colons of its own: which one would be the port's?
  const bool unclear = !bracketed && host.find(':') != host.npos;
  if (host.empty() || unclear || !port || *port < 1 || *port > 65535) return std::nullopt;
  return HostPort{std::string(host), static_cast<int>(*port)};
}

std::string numeric_address(const std::string& name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  char text[NI_MAXHOST];
  const int failed = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text : "";
}

bool leads_back(const std::string& name) { return name != "127.0.1.1" && numeric_address(name) == "127.0.1.1"; }

}  // namespace hyperion::host

// Names and addresses of machines.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hyperion::host {

struct HostPort {
  std::string host;
  int port = 0;
};
// "gpu07:29500", "10.0.0.7:29500", "[::1]:29500". Nothing where it is none of these.
std::optional<HostPort> parse_host_port(std::string_view text);

// The first address that the name has here, as a number: "10.0.0.7". Empty where it has none.
std::string numeric_address(const std::string& name);

// Whether the name of this machine leads only back into it: Debian's installer writes it as 127.0.1.1 into /etc/hosts,
// so that what listens there is not reached from elsewhere, where the same name means the machine's true address.
bool leads_back(const std::string& name);

}  // namespace hyperion::host

// TCP ports of this machine's loopback address.
#pragma once

namespace hyperion::host {

constexpr int kDefaultPort = 29500;  // where ranks meet unless told otherwise, as torchrun has it

// Whether 127.0.0.1:port can be listened on now. A port out of 1..65535 cannot.
bool port_is_free(int port);

// A port that was free a moment ago, of the system's choosing. Throws Error where there is none.
int find_free_port();

}  // namespace hyperion::host

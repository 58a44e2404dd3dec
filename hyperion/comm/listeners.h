// Ports that a library opens for its peers and never closes. Gloo takes whoever connects and keeps his descriptor for
// good, so that strangers could use up all that a rank may have.
#pragma once
#include <set>

namespace hyperion::comm {

// Descriptors of this process that TCP connections are accepted from. None are found where there is no /proc.
std::set<int> listening_sockets();

// Closes the ports of those that an event queue (epoll) of this process watches, as Gloo's are: connections are refused
// from then on. The descriptor stays, as a listener that nobody can reach, so that its owner goes on watching it and
// closes it in the end. Others, and all where no such listener can be made, are left as they are.
void close_ports(const std::set<int>& listeners);

}  // namespace hyperion::comm

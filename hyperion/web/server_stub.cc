// In a build without libevent.
#include "hyperion/base/error.h"
#include "hyperion/web/server.h"

namespace hyperion::web {

class Server::Loop {};

Server::Server(const ServerOptions&, Handler) {
  throw base::ConfigError("this build was made without libevent, which serves pages",
                          "run script/setup (apt: libevent-dev) and build again");
}
Server::~Server() = default;
int Server::port() const { return 0; }
std::string Server::url() const { return {}; }
void Server::greet(std::function<std::string()>) {}
void Server::tell(std::string_view) {}
size_t Server::readers() const { return 0; }
void Server::run(const std::function<std::chrono::milliseconds()>&, const std::function<bool()>&) {}

}  // namespace hyperion::web

// Over evhttp of libevent 2.1, which reads requests and writes replies. It knows neither a most of connections nor how
// long one may take to ask, so each connection's bufferevent is held here too, with the time it has left: evhttp takes
// its callbacks away when it lets go of one.
#include "hyperion/web/server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <unordered_map>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/web/guard.h"

namespace hyperion::web {
namespace {

using base::format;
using std::chrono::milliseconds;
using WallClock = std::chrono::steady_clock;

constexpr milliseconds kSweep{100};
constexpr std::chrono::seconds kSignOfLife{15};  // between two of them to readers of events
constexpr size_t kMostAtOnce = 1 << 20;          // bytes written before others have their turn
constexpr int kSpareDescriptors = 64;            // for the files that answers are made of

timeval timeval_of(milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* it) const { Free(it); }
};
using Base = std::unique_ptr<event_base, Freed<event_base, event_base_free>>;
using Http = std::unique_ptr<evhttp, Freed<evhttp, evhttp_free>>;
using Timer = std::unique_ptr<event, Freed<event, event_free>>;
using Buffer = std::unique_ptr<evbuffer, Freed<evbuffer, evbuffer_free>>;

std::string_view header_of(evhttp_request* request, const char* name) {
  const char* value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
  return value == nullptr ? std::string_view() : value;
}

std::string decoded(std::string_view text) {
  size_t size = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(evhttp_uridecode(std::string(text).c_str(), 0, &size), std::free);
  return plain ? std::string(plain.get(), size) : std::string();
}

// Whether the target was understood.
bool read_target(evhttp_request* request, Request& out) {
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
  const char* path = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
  if (path == nullptr || *path != '/' || evhttp_uri_get_host(uri) != nullptr) return false;
  for (std::string_view rest = path + 1; !rest.empty();) {
    const size_t end = std::min(rest.find('/'), rest.size());
    out.path.push_back(decoded(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  evkeyvalq fields{};
  const char* query = evhttp_uri_get_query(uri);
  if (query != nullptr && evhttp_parse_query_str(query, &fields) != 0) return false;
  for (const evkeyval* field = fields.tqh_first; field != nullptr; field = field->next.tqe_next)
    out.query[field->key] = field->value;
  evhttp_clear_headers(&fields);
  return true;
}

constexpr std::pair<const char*, const char*> kUsualHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri "
     "'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
    {"Connection", "close"},
};

// A value with a line end in it would be refused by evhttp, and its header be missing: ours have none.
void write_headers(evhttp_request* request, const Reply& reply) {
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", reply.type.c_str());
  for (const auto& [name, value] : reply.headers) evhttp_add_header(headers, name.c_str(), value.c_str());
  for (const auto& [name, value] : kUsualHeaders)
    if (evhttp_find_header(headers, name) == nullptr) evhttp_add_header(headers, name, value);
}

const char* words_of_status(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Error";
  }
}

}  // namespace

class Server::Loop {
 public:
  Loop(const ServerOptions& options, Handler handler) : options_(options), handler_(std::move(handler)) {
    options_.limits.connections =
        std::max(1, std::min(options_.limits.connections, base::descriptor_limit() - kSpareDescriptors));
    ::signal(SIGPIPE, SIG_IGN);  // who hung up is told by the write that fails
    base_.reset(event_base_new());
    http_.reset(base_ ? evhttp_new(base_.get()) : nullptr);
    if (!http_) throw base::Error("libevent could not begin");
    evhttp_set_max_headers_size(http_.get(), static_cast<ev_ssize_t>(options_.limits.header_bytes));
    evhttp_set_max_body_size(http_.get(), 0);
    // All but CONNECT come to `answer`, which refuses them in our words; evhttp keeps a refused CONNECT open.
    evhttp_set_allowed_methods(http_.get(), 0xffff & ~EVHTTP_REQ_CONNECT);
    evhttp_set_bevcb(
        http_.get(), [](event_base*, void* loop) { return static_cast<Loop*>(loop)->accept(); }, this);
    evhttp_set_gencb(
        http_.get(), [](evhttp_request* request, void* loop) { static_cast<Loop*>(loop)->answer(request); }, this);
    listen();
  }

  ~Loop() {
    for (const auto& [buffer, connection] : connections_)
      if (connection.stream != nullptr)
        evhttp_connection_set_closecb(evhttp_request_get_connection(connection.stream), nullptr, nullptr);
    http_.reset();
    for (const auto& [buffer, connection] : connections_) bufferevent_decref(buffer);
  }

  int port() const { return port_; }
  const std::string& token() const { return options_.token; }
  void greet(std::function<std::string()> first) { greeting_ = std::move(first); }

  size_t readers() const {
    size_t count = 0;
    for (const auto& [buffer, connection] : connections_) count += connection.stream != nullptr ? 1 : 0;
    return count;
  }

  void tell(std::string_view events) {
    for (const auto& [buffer, connection] : connections_)
      if (connection.stream != nullptr) tell(buffer, connection.stream, events);
  }

  void run(const std::function<milliseconds()>& tick, const std::function<bool()>& stop) {
    tick_ = tick, stop_ = stop;
    const Timer sweeping(event_new(
        base_.get(), -1, EV_PERSIST,
        [](evutil_socket_t, short, void* loop) { static_cast<Loop*>(loop)->guarded(&Loop::sweep); }, this));
    ticking_.reset(event_new(
        base_.get(), -1, 0, [](evutil_socket_t, short, void* loop) { static_cast<Loop*>(loop)->guarded(&Loop::tick); },
        this));
    const timeval sweep_time = timeval_of(kSweep), now = timeval_of(milliseconds(0));
    event_add(sweeping.get(), &sweep_time);
    event_add(ticking_.get(), &now);
    event_base_dispatch(base_.get());
    ticking_.reset();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  struct Connection {
    WallClock::time_point since;
    bool asked = false;
    evhttp_request* stream = nullptr;  // of a reader of events
  };

  void listen() {
    bound_ = evhttp_bind_socket_with_handle(http_.get(), "127.0.0.1", static_cast<ev_uint16_t>(options_.port));
    if (bound_ == nullptr)
      throw base::ConfigError(format("127.0.0.1:{} cannot be listened on: {}", options_.port, std::strerror(errno)),
                              "another program uses it: name another with --port, or 0 for any that is free");
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(evhttp_bound_socket_get_fd(bound_), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }

  // Exceptions must not pass through libevent.
  void guarded(void (Loop::*work)()) {
    try {
      (this->*work)();
    } catch (...) {
      failure_ = std::current_exception();
      event_base_loopbreak(base_.get());
    }
  }

  void tick() {
    const timeval next = timeval_of(tick_());
    event_add(ticking_.get(), &next);
  }

  bufferevent* accept() {
    bufferevent* buffer = bufferevent_socket_new(base_.get(), -1, BEV_OPT_CLOSE_ON_FREE);
    if (buffer == nullptr) return nullptr;
    bufferevent_incref(buffer);
    bufferevent_set_max_single_write(buffer, kMostAtOnce);
    bufferevent_setwatermark(buffer, EV_READ, 0, 2 * options_.limits.header_bytes);
    connections_[buffer] = {WallClock::now()};
    if (crowded()) evconnlistener_disable(evhttp_bound_socket_get_listener(bound_));
    return buffer;
  }

  bool crowded() const { return connections_.size() >= static_cast<size_t>(options_.limits.connections); }

  void sweep() {
    if (stop_()) event_base_loopbreak(base_.get());
    const auto now = WallClock::now();
    const bool full = crowded();
    for (auto at = connections_.begin(); at != connections_.end();) {
      if (let_go(at->first)) {
        bufferevent_decref(at->first);
        at = connections_.erase(at);
        continue;
      }
      if (at->second.stream == nullptr && now - at->second.since > time_of(at->second, full)) hang_up(at->first);
      ++at;
    }
    if (!crowded()) evconnlistener_enable(evhttp_bound_socket_get_listener(bound_));
    if (now - last_sign_ > kSignOfLife) tell(":\n\n"), last_sign_ = now;
  }

  milliseconds time_of(const Connection& connection, bool full) const {
    if (connection.asked) return options_.limits.reply;
    return full ? options_.limits.crowded : options_.limits.request;
  }

  static bool let_go(bufferevent* buffer) {
    bufferevent_event_cb on_event = nullptr;
    bufferevent_getcb(buffer, nullptr, nullptr, &on_event, nullptr);
    return on_event == nullptr;
  }

  // evhttp sees the end of the connection, and frees what is its own.
  static void hang_up(bufferevent* buffer) { ::shutdown(bufferevent_getfd(buffer), SHUT_RDWR); }

  void tell(bufferevent* buffer, evhttp_request* stream, std::string_view events) const {
    if (evbuffer_get_length(bufferevent_get_output(buffer)) + events.size() > options_.limits.backlog_bytes) {
      hang_up(buffer);
      return;
    }
    const Buffer piece(evbuffer_new());
    evbuffer_add(piece.get(), events.data(), events.size());
    evhttp_send_reply_chunk(stream, piece.get());
  }

  void answer(evhttp_request* request) {
    auto* buffer = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
    auto& connection = connections_[buffer];
    connection.asked = true, connection.since = WallClock::now();
    Reply reply;
    try {
      Request asked;
      reply = refusal(request, asked);
      if (reply.status == 200 && asked.path == std::vector{options_.events_path}) {
        begin_stream(connection, request);
        return;
      }
      if (reply.status == 200) reply = handler_(asked);
    } catch (const std::exception& error) {
      reply = {500, "text/plain; charset=utf-8", format("{}\n", error.what())};
    }
    send(request, reply);
  }

  // 200 where there is none.
  Reply refusal(evhttp_request* request, Request& asked) const {
    constexpr const char* kPlain = "text/plain; charset=utf-8";
    if (!is_loopback_host(header_of(request, "Host")))
      return {403, kPlain, "This page is for this machine alone: call it 127.0.0.1 or localhost.\n"};
    if (!read_target(request, asked)) return {400, kPlain, "This is no path of this server.\n"};
    const auto told = asked.query.find("token");
    const bool by_query = told != asked.query.end() && same_text(told->second, token());
    if (!by_query && !brings_token(request))
      return {403, kPlain, "The token is missing: open the address that `hyperion dash` printed.\n"};
    if (evhttp_request_get_command(request) != EVHTTP_REQ_GET)
      return {405, kPlain, "Only GET is answered.\n", {{"Allow", "GET"}}};
    if (by_query && asked.path.empty())
      return {
          303,
          kPlain,
          "",
          {{"Location", "/"}, {"Set-Cookie", format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie(), token())}}};
    return {};
  }

  // Cookies know no ports: two servers of one user keep theirs apart by name.
  std::string cookie() const { return format("hyperion_{}", port_); }

  bool brings_token(evhttp_request* request) const {
    auto bearer = header_of(request, "Authorization");
    if (bearer.starts_with("Bearer ") && same_text(bearer.substr(7), token())) return true;
    return same_text(cookie_value(header_of(request, "Cookie"), cookie()), token());
  }

  static void send(evhttp_request* request, const Reply& reply) {
    write_headers(request, reply);
    const Buffer body(evbuffer_new());
    if (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD)
      evbuffer_add(body.get(), reply.body.data(), reply.body.size());
    evhttp_send_reply(request, reply.status, words_of_status(reply.status), body.get());
  }

  void begin_stream(Connection& connection, evhttp_request* request) {
    connection.stream = request;
    evhttp_connection_set_closecb(
        evhttp_request_get_connection(request),
        [](evhttp_connection* closed, void* loop) {
          static_cast<Loop*>(loop)->end_stream(evhttp_connection_get_bufferevent(closed));
        },
        this);
    write_headers(request, {200, "text/event-stream", ""});
    evhttp_send_reply_start(request, 200, "OK");
    const std::string first = "retry: 500\n\n" + (greeting_ ? greeting_() : "");
    const Buffer piece(evbuffer_new());
    evbuffer_add(piece.get(), first.data(), first.size());
    evhttp_send_reply_chunk(request, piece.get());
  }

  void end_stream(bufferevent* buffer) {
    auto* request = std::exchange(connections_[buffer].stream, nullptr);
    // Where evhttp has parted the two, the request is ours to free, and this does it.
    if (request != nullptr && evhttp_request_get_connection(request) == nullptr) evhttp_send_reply_end(request);
  }

  ServerOptions options_;
  Handler handler_;
  std::function<std::string()> greeting_;
  std::function<milliseconds()> tick_;
  std::function<bool()> stop_;
  std::exception_ptr failure_;
  WallClock::time_point last_sign_ = WallClock::now();
  int port_ = 0;
  std::unordered_map<bufferevent*, Connection> connections_;
  Base base_;
  Http http_;
  Timer ticking_;
  evhttp_bound_socket* bound_ = nullptr;
};

Server::Server(const ServerOptions& options, Handler handler)
    : loop_(std::make_unique<Loop>(options, std::move(handler))) {}
Server::~Server() = default;

int Server::port() const { return loop_->port(); }
std::string Server::url() const { return format("http://127.0.0.1:{}/?token={}", port(), loop_->token()); }
void Server::greet(std::function<std::string()> first) { loop_->greet(std::move(first)); }
void Server::tell(std::string_view events) { loop_->tell(events); }
size_t Server::readers() const { return loop_->readers(); }
void Server::run(const std::function<milliseconds()>& tick, const std::function<bool()>& stop) {
  loop_->run(tick, stop);
}

}  // namespace hyperion::web

#include "hyperion/hub/http.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>

#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/hub/curl.h"

namespace hyperion::hub {
namespace {

using base::ConfigError;
using base::format;

constexpr int kMostRedirects = 10;
constexpr long kConnectSeconds = 30, kStalledSeconds = 60;
constexpr size_t kLongestRefusal = 1 << 20, kMostHeaderBytes = 1 << 18;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "::1";
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// One answer while it comes. libcurl is C: what is thrown waits until it has returned.
struct Transfer {
  const HttpClient::Take& take;
  Response response = {};
  size_t discarded = 0, header_bytes = 0;
  std::exception_ptr thrown = nullptr;
};

size_t take_header(char* bytes, size_t size, size_t count, void* user) noexcept {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    const std::string_view line(bytes, size * count);
    if ((transfer.header_bytes += line.size()) > kMostHeaderBytes) return 0;
    const size_t colon = line.find(':');
    if (line.starts_with("HTTP/")) {  // a proxy's answer, or a provisional one, came before
      const size_t blank = line.find(' ');
      transfer.response = {};
      if (blank != line.npos) transfer.response.status = std::atoi(std::string(line.substr(blank)).c_str());
    } else if (colon != line.npos) {
      transfer.response.headers[lower(std::string(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
    }
    return line.size();
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
}

size_t take_body(char* bytes, size_t size, size_t count, void* user) noexcept {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view piece(bytes, size * count);
  try {
    if (transfer.response.status / 100 == 2)
      transfer.take(transfer.response, piece);
    else if ((transfer.discarded += piece.size()) > kLongestRefusal)
      return 0;
    return piece.size();
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
}

int stop_if_asked(void*, int64_t, int64_t, int64_t, int64_t) noexcept { return base::stop_signal() != 0 ? 1 : 0; }

class HeaderList {
 public:
  ~HeaderList() { curl().slist_free_all(list_); }
  void add(const std::string& line) {
    void* longer = curl().slist_append(list_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }
  void* list() const { return list_; }

 private:
  void* list_ = nullptr;
};

[[noreturn]] void fail_transfer(int code, const std::string& host, const char* words) {
  if (code == Curl::kAborted)
    throw base::Interrupted("stopped while fetching", 128 + base::stop_signal(),
                            "the same command goes on where it was");
  const std::string what = format("{}: {}", host, *words != '\0' ? words : curl().easy_strerror(code));
  if (code == Curl::kPeerNotVerified || code == Curl::kTlsConnect || code == Curl::kBadCaFile)
    throw base::Error(what, "check this machine's certificates (ca-certificates, SSL_CERT_FILE) and clock");
  throw NetworkError(what, "check the network, HF_ENDPOINT and HTTPS_PROXY; what is in the cache needs no network");
}

}  // namespace

std::string shown_words(std::string_view text) {
  std::string shown(text.substr(0, 300));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return shown;
}

std::string Response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpClient::Origin HttpClient::origin_of(const std::string& url) {
  const Curl& library = curl();
  void* parsed = library.url();
  const auto part = [&](Curl::UrlPart which, unsigned flags) {
    char* text = nullptr;
    std::string copy;
    if (library.url_get(parsed, which, &text, flags) == Curl::kOk) copy = text;
    library.free(text);
    return copy;
  };
  Origin origin;
  const bool good = library.url_set(parsed, Curl::kWholeUrl, url.c_str(), 0) == Curl::kOk &&
                    part(Curl::kUser, 0).empty() && part(Curl::kPassword, 0).empty();
  if (good)
    origin = {lower(part(Curl::kScheme, 0)), lower(part(Curl::kHost, 0)), part(Curl::kPort, Curl::kDefaultPort)};
  library.url_cleanup(parsed);
  return origin;
}

// http is for a hub on this machine, or where the user said so; never where the endpoint itself is https.
void HttpClient::check(const Origin& origin, const std::string& url) const {
  if (origin.scheme == "https") return;
  if (origin.scheme == "http" && home_.scheme == "http" && (allow_http_ || is_this_machine(origin.host))) return;
  throw ConfigError(format("{} is not asked: only https is, or http on this machine", shown_words(url)),
                    "set HF_ENDPOINT to an address with https; --allow-http sends and takes everything in the open");
}

HttpClient::HttpClient(std::string endpoint, std::string token, bool allow_http)
    : endpoint_(std::move(endpoint)), token_(std::move(token)), allow_http_(allow_http) {
  while (endpoint_.ends_with('/')) endpoint_.pop_back();
  home_ = origin_of(endpoint_);
  if (home_.host.empty())
    throw ConfigError(format("HF_ENDPOINT = {} is no address", shown_words(endpoint_)),
                      "write https://HOST, without a user's name");
  check(home_, endpoint_);
  handle_ = curl().easy_init();
  if (handle_ == nullptr) throw std::bad_alloc();
}

HttpClient::~HttpClient() { curl().easy_cleanup(handle_); }

Response HttpClient::ask_once(const Request& request, const Origin& origin, const Take& take,
                              std::string& redirect) const {
  const Curl& library = curl();
  const auto set = [&](Curl::Option option, auto value) { library.easy_setopt(handle_, option, value); };
  HeaderList headers;
  if (origin == home_ && !token_.empty()) headers.add("Authorization: Bearer " + token_);
  if (request.from > 0) headers.add(format("Range: bytes={}-", request.from));
  Transfer transfer{take};
  char words[256] = {};
  if (request.head)
    set(Curl::kNoBody, 1L);
  else
    set(Curl::kHttpGet, 1L);
  set(Curl::kUrl, request.url.c_str());
  set(Curl::kHttpHeader, headers.list());
  set(Curl::kFollowLocation, 0L);
  set(Curl::kProtocols, Curl::kHttpAndHttps);
  set(Curl::kUserAgent, "hyperion");
  set(Curl::kNoSignal, 1L);
  set(Curl::kConnectTimeout, kConnectSeconds);
  set(Curl::kLowSpeedLimit, 1L);
  set(Curl::kLowSpeedTime, kStalledSeconds);
  set(Curl::kHeaderFunction, take_header);
  set(Curl::kHeaderData, static_cast<void*>(&transfer));
  set(Curl::kWriteFunction, take_body);
  set(Curl::kWriteData, static_cast<void*>(&transfer));
  set(Curl::kNoProgress, 0L);
  set(Curl::kProgressFunction, stop_if_asked);
  set(Curl::kErrorBuffer, static_cast<char*>(words));
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* file = std::getenv(variable); file != nullptr && *file != '\0') set(Curl::kCaInfo, file);
  const int code = library.easy_perform(handle_);
  set(Curl::kErrorBuffer, static_cast<char*>(nullptr));
  set(Curl::kHttpHeader, static_cast<void*>(nullptr));
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  const char* next = nullptr;
  if (is_redirect(transfer.response.status) && library.easy_getinfo(handle_, Curl::kRedirectUrl, &next) == Curl::kOk &&
      next != nullptr)
    redirect = next;
  if (code != Curl::kOk) fail_transfer(code, origin.host, words);
  return transfer.response;
}

Response HttpClient::send(const Request& first, const Take& take) const {
  Request request = first;
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    const Origin origin = origin_of(request.url);
    check(origin, request.url);
    std::string redirect;
    const Response response = ask_once(request, origin, take, redirect);
    if (redirect.empty() || (request.stay && origin_of(redirect) != origin)) return response;
    request.url = redirect;
  }
  throw base::Error(format("{} leads from one address to the next without end", shown_words(first.url)),
                    "check HF_ENDPOINT");
}

}  // namespace hyperion::hub

#include "hyperion/web/guard.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/own_secret.h"

namespace hyperion::web {
namespace {

using base::format;

constexpr size_t kTokenLength = 43;
constexpr std::string_view kTokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool is_token(std::string_view text) {
  return text.size() == kTokenLength && text.find_first_not_of(kTokenLetters) == text.npos;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool same_word(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == y; });
}

}  // namespace

std::string new_token() {
  std::array<unsigned char, kTokenLength> random{};
  if (::getentropy(random.data(), random.size()) != 0)
    throw base::Error(format("this machine gives no random bytes: {}", std::strerror(errno)));
  std::string token;
  for (const unsigned char byte : random) token += kTokenLetters[byte % kTokenLetters.size()];
  return token;
}

std::string kept_token(const base::Path& path) {
  const std::string token = base::own_secret(path, new_token, "set XDG_CONFIG_HOME to a folder that can be written");
  if (!is_token(token))
    throw base::ConfigError(format("{} does not hold a token", path.string()), "remove it: another is made");
  return token;
}

base::Path token_file() { return base::own_secret_file("dash_token"); }

bool same_text(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool is_loopback_host(std::string_view host) {
  const size_t bracket = host.find(']'), colon = host.find(':', bracket == host.npos ? 0 : bracket);
  if (colon != host.npos) {
    const auto port = host.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos) return false;
  }
  const auto name = host.substr(0, colon);
  return name == "127.0.0.1" || name == "[::1]" || same_word(name, "localhost");
}

std::string_view cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const size_t end = std::min(header.find(';'), header.size());
    const auto one = trimmed(header.substr(0, end));
    const size_t equals = one.find('=');
    if (equals != one.npos && one.substr(0, equals) == name) return one.substr(equals + 1);
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return {};
}

}  // namespace hyperion::web

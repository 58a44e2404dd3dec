#include "hyperion/strategy/layout.h"

#include <charconv>
#include <set>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::strategy {
namespace {

using base::format;

constexpr int64_t kMost = 1 << 20;

[[noreturn]] void refuse(const std::string& text, const std::string& part, const std::string& why) {
  throw base::ConfigError(format("--parallel {}: \"{}\" {}", text, part, why),
                          "write axes as dp=4 or dp=2x2,tp=2; they are pp, dp, cp, tp and ep");
}

int64_t number(const std::string& text, const std::string& part, const std::string& digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > kMost)
    refuse(text, part, "is not a number of processes");
  return value;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

Layout parse_layout(const std::string& text) {
  Layout layout;
  std::set<std::string> seen;
  for (const auto& part : parts_of(text, ',')) {
    const size_t equals = part.find('=');
    const std::string axis = part.substr(0, equals), size = equals == part.npos ? "" : part.substr(equals + 1);
    if (!seen.insert(axis).second) refuse(text, part, "names an axis twice");
    if (axis == "dp") {
      const size_t cross = size.find('x');
      layout.dp_shard = number(text, part, cross == size.npos ? size : size.substr(cross + 1));
      if (cross != size.npos) layout.dp_replicate = number(text, part, size.substr(0, cross));
      continue;
    }
    int64_t* const target = axis == "pp"   ? &layout.pp
                            : axis == "cp" ? &layout.cp
                            : axis == "tp" ? &layout.tp
                            : axis == "ep" ? &layout.ep
                                           : nullptr;
    if (target == nullptr) refuse(text, part, "is no axis");
    *target = number(text, part, size);
  }
  return layout;
}

std::string Layout::text() const {
  std::string out;
  const auto add = [&](const char* axis, const std::string& size) {
    out += format("{}{}={}", out.empty() ? "" : ",", axis, size);
  };
  if (pp > 1) add("pp", format("{}", pp));
  if (dp() > 1) add("dp", dp_replicate > 1 ? format("{}x{}", dp_replicate, dp_shard) : format("{}", dp_shard));
  if (cp > 1) add("cp", format("{}", cp));
  if (tp > 1) add("tp", format("{}", tp));
  if (ep > 1) add("ep", format("{}", ep));
  return out.empty() ? "dp=1" : out;
}

}  // namespace hyperion::strategy

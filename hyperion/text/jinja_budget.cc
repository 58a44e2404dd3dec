#include "hyperion/text/jinja_budget.h"

#include <cstring>

#include "hyperion/base/signals.h"
#include "hyperion/text/jinja_fault.h"

namespace hyperion::text::jinja {
namespace {

constexpr int64_t kMostSteps = 50'000'000;  // seconds; a dialogue of a thousand messages takes a fiftieth of them
constexpr int64_t kBetweenLooks = 1 << 16;

thread_local Account account;

}  // namespace

Budget::Budget() : outer_(account) { account = {kMostSteps, 0, true}; }
Budget::~Budget() { account = outer_; }

void spend(size_t steps) {
  if (!account.open) return;
  const int64_t before = account.steps_left;
  account.steps_left -= static_cast<int64_t>(steps < kMostSteps ? steps : kMostSteps);
  if (account.steps_left < 0) throw Fault(0, "the template takes more than fifty million steps");
  if (before / kBetweenLooks != account.steps_left / kBetweenLooks)
    base::throw_if_stopped("writing the chat template's text");
}

HeldBytes::HeldBytes(size_t bytes) { grow(bytes); }

HeldBytes::~HeldBytes() { account.bytes -= counted_; }

void HeldBytes::grow(size_t bytes) {
  bytes_ += bytes;
  if (!account.open) return;
  if (bytes > kMaxValues || account.bytes > kMaxValues - bytes)
    throw Fault(0, "its values grow too large: past 256 MiB together");
  account.bytes += bytes;
  counted_ += bytes;
}

void append(std::string& out, std::string_view more) {
  spend_on_text(more.size());
  if (more.size() > kMaxText || out.size() > kMaxText - more.size())
    throw Fault(0, "a value grows too large: a text past 64 MiB");
  out += more;
}

size_t place_of(std::string_view what, std::string_view text, size_t from) {
  if (from > text.size()) return text.npos;
  const auto rest = text.substr(from);
  const auto* hit = static_cast<const char*>(::memmem(rest.data(), rest.size(), what.data(), what.size()));
  const size_t place = hit == nullptr ? text.npos : static_cast<size_t>(hit - text.data());
  spend_on_text(what.size() + (hit == nullptr ? rest.size() : place - from));
  return place;
}

}  // namespace hyperion::text::jinja

#include "hyperion/data/jinja_budget.h"

#include "hyperion/base/signals.h"
#include "hyperion/data/jinja_tree.h"

namespace hyperion::data::jinja {
namespace {

constexpr int64_t kMostSteps = 50'000'000;  // seconds; a dialogue of a thousand messages takes a fiftieth of them
constexpr int64_t kBetweenLooks = 1 << 16;

thread_local int64_t steps_left = kMostSteps;

}  // namespace

Budget::Budget() : outer_(steps_left) { steps_left = kMostSteps; }
Budget::~Budget() { steps_left = outer_; }

void spend(size_t steps) {
  const int64_t before = steps_left;
  steps_left -= static_cast<int64_t>(steps < kMostSteps ? steps : kMostSteps);
  if (steps_left < 0) throw Fault(0, "the template takes more than fifty million steps");
  if (before / kBetweenLooks != steps_left / kBetweenLooks) base::throw_if_stopped("writing the chat template's text");
}

void append(std::string& out, const std::string& more) {
  spend_on_text(more.size());
  if (more.size() > kMaxText || out.size() > kMaxText - more.size())
    throw Fault(0, "a value grows too large: a text past 64 MiB");
  out += more;
}

}  // namespace hyperion::data::jinja

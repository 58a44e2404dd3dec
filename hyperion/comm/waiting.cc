#include "hyperion/comm/waiting.h"

#include <map>
#include <mutex>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

struct Entry {
  std::string what;
  double since;
};
std::mutex mutex;
uint64_t next = 0;
std::map<uint64_t, Entry>& entries() {  // never destroyed: a heartbeat may ask until the very end
  static auto* const all = new std::map<uint64_t, Entry>();
  return *all;
}

}  // namespace

Waiting::Waiting(std::string what) {
  const std::lock_guard lock(mutex);
  number_ = next++;
  entries()[number_] = {std::move(what), base::real_clock().seconds()};
}

Waiting::~Waiting() {
  const std::lock_guard lock(mutex);
  entries().erase(number_);
}

std::string waiting_text() {
  const std::lock_guard lock(mutex);
  std::string text;
  for (const auto& [number, entry] : entries())
    text += base::format("{}in {} for {:.1f} s", text.empty() ? "" : ", ", entry.what,
                         base::real_clock().seconds() - entry.since);
  return text.empty() ? "for nobody" : text;
}

}  // namespace hyperion::comm

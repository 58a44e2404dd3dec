#include "hyperion/comm/roll_call.h"

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "hyperion/base/format.h"

namespace hyperion::comm {

using base::format;

namespace {

constexpr int kLongest = 16;                           // of a chain of those that wait for each other
constexpr std::chrono::milliseconds kOthersTell{500};  // after us, where they began to wait with us
constexpr int64_t kStillTrue = 10;                     // seconds

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string key_of(int rank) { return format("hyperion/waits_for/{}", rank); }

}  // namespace

RollCall::RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : store_(std::move(store)), common_(store_), rank_(rank), size_(size) {
  if (auto* prefix = dynamic_cast<c10d::PrefixStore*>(store_.get())) common_ = prefix->getUnderlyingNonPrefixStore();
}

// "1700000000 3": since when, and for whom.
void RollCall::tell(int own, const std::string& silent) const {
  common_->set(key_of(own), format("{} {}", seconds_now(), silent));
}

// Whom a silent rank waits for itself, and that one, as far as it is known.
std::string RollCall::further(int rank, int own) const {
  std::string text;
  for (int i = 0; i < kLongest; ++i) {
    if (!common_->check({key_of(rank)})) break;
    const std::string said = common_->get_to_str(key_of(rank));
    const size_t space = said.find(' ');
    if (space == said.npos || std::stoll(said.substr(0, space)) < seconds_now() - kStillTrue) break;
    const std::string whom = said.substr(space + 1);
    if (whom == format("{}", own)) break;
    text += format(", which waits for rank {}", whom);
    if (whom.find(',') != whom.npos) break;
    rank = std::stoi(whom);
  }
  return text;
}

// Who stays silent is gone or stands still; who was at an earlier call, or at another, never came to this one.
std::string RollCall::missing(const std::string& occasion, int64_t call, const std::string& doing,
                              std::chrono::milliseconds patience, const std::function<int(int)>& name) const {
  try {
    const std::string here = format("{} {}", call, doing);
    store_->set(format("{}/{}", occasion, rank_), here);
    std::this_thread::sleep_for(patience);
    std::string silent, elsewhere;
    int last = -1, count = 0;
    for (int i = 0; i < size_; ++i) {
      const std::string key = format("{}/{}", occasion, i);
      if (!store_->check({key})) {
        silent += format("{}{}", silent.empty() ? "" : ", ", name(i));
        last = name(i), ++count;
        continue;
      }
      const std::string said = store_->get_to_str(key);
      if (said != here) elsewhere += format("; rank {} was at call {}", name(i), said);
    }
    if (silent.empty()) return elsewhere.empty() ? "" : elsewhere.substr(2);
    tell(name(rank_), silent);
    std::this_thread::sleep_for(kOthersTell);
    return "no word from rank " + silent + (count == 1 ? further(last, name(rank_)) : "") + elsewhere;
  } catch (const std::exception&) {
    return "the store does not answer, so the process that holds it (rank 0, or the launcher) is gone or stands still";
  }
}

}  // namespace hyperion::comm

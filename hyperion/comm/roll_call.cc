#include "hyperion/comm/roll_call.h"

#include <thread>

#include "hyperion/base/format.h"

namespace hyperion::comm {

using base::format;

// Who stays silent is gone or stands still; who was at an earlier call, or at another, never came to this one.
std::string RollCall::missing(const std::string& occasion, int64_t call, const std::string& doing,
                              std::chrono::milliseconds patience, const std::function<int(int)>& name) const {
  try {
    const std::string here = format("{} {}", call, doing);
    store_->set(format("{}/{}", occasion, rank_), here);
    std::this_thread::sleep_for(patience);
    std::string silent, elsewhere;
    for (int i = 0; i < size_; ++i) {
      const std::string key = format("{}/{}", occasion, i);
      if (!store_->check({key})) {
        silent += format("{}{}", silent.empty() ? "" : ", ", name(i));
        continue;
      }
      const std::string said = store_->get_to_str(key);
      if (said != here) elsewhere += format("; rank {} was at call {}", name(i), said);
    }
    if (silent.empty()) return elsewhere.empty() ? "" : elsewhere.substr(2);
    return "no word from rank " + silent + elsewhere;
  } catch (const std::exception&) {
    return "the store does not answer, so the process that holds it (rank 0, or the launcher) is gone or stands still";
  }
}

}  // namespace hyperion::comm

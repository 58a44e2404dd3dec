// Work of a group that is under way, and a slow link to try it on.
#pragma once
#include <memory>
#include <string>
#include <utility>

namespace hyperion::comm {

// Something under way. May be dropped without waiting.
class Pending {
 public:
  Pending() = default;
  // Throws base::Error where it failed: operation, group, bytes, who asked, and which ranks are missing where known.
  void wait();
  bool valid() const { return work_ != nullptr; }

  struct Work;  // comm/calls.h

 private:
  friend class Group;
  explicit Pending(std::shared_ptr<Work> work) : work_(std::move(work)) {}
  std::shared_ptr<Work> work_;
};

// A link slower than it is, for tests: HYPERION_SLOW_LINK="50MB/s,200us" or either alone.
struct SlowLink {
  double bytes_per_second = 0, latency = 0;  // 0: as it is
};
SlowLink slow_link_of(const std::string& text);  // throws ConfigError

}  // namespace hyperion::comm

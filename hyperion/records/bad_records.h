// What cannot be read of the data that a user gave, and what is done about it: stop at once, or skip it up to a limit.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/base/error.h"

namespace hyperion::records {

// One record, or the rest of a file, that cannot be used. It reads "file:line: reason", or "file: reason" where the
// line is 0: the failure is the file's, or the reason names the byte.
struct BadRecord : base::CorruptError {
  BadRecord(std::string file, int64_t line, std::string reason, std::string hint = {});
  std::string file;
  int64_t line;  // the first is 1
  std::string reason;
};

enum class OnBad { fail, skip };
constexpr auto words_of(OnBad) { return std::array{"fail", "skip"}; }

// The policy of one pass over the data. Not for several threads: what is told in the order of the records gives the
// same first failure and the same list whatever the number of threads.
class BadRecords {
 public:
  explicit BadRecords(OnBad policy, int64_t limit = 1000) : policy_(policy), limit_(limit) {}

  // fail: throws it on, with a hint. skip: keeps it, and throws a CorruptError that is no BadRecord once there are more
  // than the limit.
  void add(const BadRecord& bad);

  int64_t count() const { return static_cast<int64_t>(list_.size()); }
  const std::vector<BadRecord>& list() const { return list_; }

 private:
  OnBad policy_;
  int64_t limit_;
  std::vector<BadRecord> list_;
};

}  // namespace hyperion::records

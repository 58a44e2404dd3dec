#include "hyperion/records/bad_records.h"

#include <utility>

#include "hyperion/base/format.h"

namespace hyperion::records {
namespace {

std::string message(const std::string& file, int64_t line, const std::string& reason) {
  return line > 0 ? base::format("{}:{}: {}", file, line, reason) : base::format("{}: {}", file, reason);
}

}  // namespace

BadRecord::BadRecord(std::string in, int64_t at, std::string why, std::string hint)
    : base::CorruptError(message(in, at, why), std::move(hint)),
      file(std::move(in)),
      line(at),
      reason(std::move(why)) {}

void BadRecords::add(const BadRecord& bad) {
  if (policy_ == OnBad::fail) {
    const std::string hint = bad.hint().empty() ? "" : bad.hint() + "; or ";
    throw BadRecord(bad.file, bad.line, bad.reason, hint + "mend or remove it, or pass --on-bad=skip");
  }
  list_.push_back(bad);
  if (count() > limit_)
    throw base::CorruptError(
        base::format("{} bad records, and the limit is {}; the last is {}", count(), limit_, bad.what()),
        "look at the first ones: so many often mean a wrong format or field; else raise the limit");
}

}  // namespace hyperion::records

#include "hyperion/trace_formats/database_events.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"

namespace hyperion::trace {
namespace {

constexpr uint64_t kBetweenWords = 4096;  // events, of progress
constexpr int64_t kLatest = std::numeric_limits<int64_t>::max() / 4;

std::string with_arguments(const std::string& facts) {
  return facts.empty() ? std::string() : R"("args": {)" + facts.substr(facts.find_first_not_of(", ")) + "}";
}

}  // namespace

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

std::string_view without_version(std::string_view call) {
  const size_t at = call.rfind("_v");
  const bool version =
      at != call.npos && at + 2 < call.size() && call.find_first_not_of("0123456789", at + 2) == call.npos;
  return version ? call.substr(0, at) : call;
}

int64_t DatabaseEvents::duration(int64_t begin, int64_t end) const {
  if (end < begin || begin < -kLatest || end > kLatest) database_.fail("an event ends before it begins");
  return end - begin;
}

void DatabaseEvents::count() {
  if (++added_ % kBetweenWords == 0 && progress_) progress_(0);
}

void DatabaseEvents::add_device(std::string_view category, std::string_view name, int64_t begin, int64_t end,
                                const Place& place, const std::string& facts) {
  auto all = base::format(R"("device": {}, "stream": {})", place.device, place.stream);
  if (place.correlation != kNone) all += base::format(R"(, "correlation": {})", place.correlation);
  const auto members = with_arguments(all + facts);
  const auto device = std::to_string(place.device), stream = std::to_string(place.stream);
  builder_.add({'X', category, name, device, stream, begin, duration(begin, end), members});
  count();
}

void DatabaseEvents::add_host(std::string_view category, std::string_view name, int64_t begin, int64_t end, int64_t pid,
                              int64_t tid, int64_t correlation, const std::string& facts) {
  std::string all = facts;
  if (correlation != kNone) all += base::format(R"(, "correlation": {})", correlation);
  const auto members = with_arguments(all);
  builder_.add({'X', category, name, std::to_string(pid), std::to_string(tid), begin, duration(begin, end), members});
  count();
}

void DatabaseEvents::add_instant(std::string_view name, int64_t at, int64_t pid, int64_t tid) {
  duration(at, at);
  builder_.add({'i', "user_annotation", name, std::to_string(pid), std::to_string(tid), at, kNone, R"("s": "t")"});
  count();
}

}  // namespace hyperion::trace

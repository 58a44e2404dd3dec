#include "hyperion/profile/trace_request.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"

namespace hyperion::profile {
namespace {

constexpr uint64_t kLongest = 1 << 16;

base::Path request_path(const base::Path& run) { return run / "traces" / "asked.json"; }
base::Path answer_path(const base::Path& run) { return run / "traces" / ".answer.json"; }  // no trace

int64_t whole(const base::Json& json, int64_t least, int64_t most) {
  const auto number = json.get<int64_t>();
  if (number < least || number > most)
    throw base::CorruptError(base::format("{} is not between {} and {}", number, least, most));
  return number;
}

}  // namespace

int64_t TraceRequest::mask() const {
  if (ranks.empty()) return -1;
  int64_t bits = 0;
  for (const auto rank : ranks) bits |= int64_t{1} << rank;
  return bits;
}

void ask_for_trace(base::FileSystem& files, const base::Path& run, const TraceRequest& request) {
  files.create_folders(run / "traces");
  files.remove_all(answer_path(run));
  base::write_atomically(
      files, request_path(run),
      base::Json{{"steps", request.steps}, {"ranks", request.ranks}, {"memory", request.memory}}.dump() + "\n");
}

bool trace_is_asked(base::FileSystem& files, const base::Path& run) { return files.exists(request_path(run)); }

void withdraw_request(base::FileSystem& files, const base::Path& run) { files.remove_all(request_path(run)); }

TraceAnswer answer_to(const TraceRequest& asked, const TracePlan& own, int64_t next, int64_t last, int64_t ranks) {
  for (const auto rank : asked.ranks)
    if (rank >= ranks)
      return {0, base::format("there is no rank {} among {} process{}", rank, ranks, ranks == 1 ? "" : "es")};
  const int64_t warm_up = own.next_free(next, 1 + asked.steps);
  if (warm_up == 0)
    return {0, base::format("its own plan, train.profile, never leaves {} steps free", 1 + asked.steps)};
  if (warm_up + asked.steps > last)
    return {0, base::format("it ends with step {}, before {} steps could be traced", last, asked.steps)};
  return {warm_up + 1, {}};
}

void answer_request(base::FileSystem& files, const base::Path& run, const TraceAnswer& answer) {
  base::write_atomically(files, answer_path(run),
                         base::Json{{"first", answer.first}, {"refused", answer.refused}}.dump() + "\n");
}

std::optional<TraceAnswer> take_answer(base::FileSystem& files, const base::Path& run) {
  if (!files.exists(answer_path(run))) return std::nullopt;
  const auto json = base::Json::parse(base::read_at_most(files, answer_path(run), kLongest));
  files.remove_all(answer_path(run));
  return TraceAnswer{json.at("first").get<int64_t>(), json.at("refused").get<std::string>()};
}

std::optional<TraceRequest> take_request(base::FileSystem& files, const base::Path& run) {
  if (!trace_is_asked(files, run)) return std::nullopt;
  try {
    const auto json = base::Json::parse(base::read_at_most(files, request_path(run), kLongest));
    withdraw_request(files, run);
    TraceRequest request;
    request.steps = whole(json.at("steps"), 1, TraceRequest::kMostSteps);
    request.memory = json.value("memory", false);
    for (const auto& rank : json.at("ranks")) request.ranks.push_back(whole(rank, 0, TraceRequest::kMostRank));
    return request;
  } catch (const std::exception& error) {
    base::log_warn(base::format("{} asks for no trace: {}", request_path(run).string(), error.what()));
    try {
      withdraw_request(files, run);
    } catch (const base::Error& left) {
      base::log_warn(left.what());
    }
    return std::nullopt;
  }
}

}  // namespace hyperion::profile

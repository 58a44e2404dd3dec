#include "hyperion/dash/site.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/dash/merged_families.h"
#include "hyperion/dash/page_files.h"
#include "hyperion/dash/rank_table.h"
#include "hyperion/dash/run_details.h"

namespace hyperion::dash {
namespace {

using base::format;
using base::Json;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenReads{200}, kAtOnce{1};
constexpr double kBetweenLists = 2;    // seconds
constexpr double kIdleAfter = 10;      // seconds without a request or reader; then nothing is read
constexpr int64_t kMostPoints = 8192;  // of a curve
constexpr int64_t kMostNewRows = 4096;

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

web::Reply json_reply(std::string text) { return {200, "application/json", std::move(text)}; }
web::Reply json_reply(const Json& json) { return json_reply(json_text(json)); }

web::Reply not_found(const std::string& what) { return {404, "text/plain; charset=utf-8", what + "\n"}; }

int64_t whole_or(const web::Request& request, const char* name, int64_t otherwise) {
  const auto at = request.query.find(name);
  if (at == request.query.end()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
  return error == std::errc() && end == at->second.data() + at->second.size() ? value : otherwise;
}

// A run's folder may come from a stranger: what is in its files neither runs nor fetches anything, nor is of our
// origin.
web::Reply file_of_run(const base::Path& path, const char* type) {
  if (!base::real_files().exists(path)) return not_found("This run has no such file yet.");
  return {200,
          type,
          base::read_description(base::real_files(), path),
          {{"Content-Security-Policy",
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"}}};
}

std::string evaluations_text(const FollowedRun& run, int64_t had) {
  const auto& kept = run.evaluations();
  const int64_t first = run.evaluations_seen() - static_cast<int64_t>(kept.size());
  Json all = Json::array();
  for (int64_t i = std::max(had, first); i < run.evaluations_seen(); ++i) {
    const auto& one = kept[static_cast<size_t>(i - first)];
    Json values = Json::object();
    for (const auto& [name, value] : one.values) values[name] = value;
    all.push_back({{"step", one.step}, {"seconds", one.seconds}, {"values", values}});
  }
  return format("\"evaluations_seen\":{},\"evaluations\":{}", run.evaluations_seen(), json_text(all));
}

}  // namespace

Json Site::list() const {
  Json all = Json::array();
  for (const auto& run : runs_.all()) all.push_back(run->summary());
  return {{"named", runs_.named()}, {"left_out", runs_.left_out()}, {"runs", all}};
}

std::string Site::greeting() {
  know_runs();
  return web::event_text("runs", json_text(list()));
}

void Site::know_runs() {
  if (next_list_ == 0) refresh_list([](const std::string&) {});
}

web::Reply Site::answer(const web::Request& request) {
  last_asked_ = base::now();
  know_runs();
  const auto& path = request.path;
  if (path.empty() || path.size() == 1) {
    if (const auto* file = page_file(path.empty() ? "page.html" : path[0]))
      return {200, std::string(file->type), std::string(file->text)};
    if (path[0] == "metrics") return prometheus();
  }
  if (path == std::vector<std::string>{"api", "runs"}) return json_reply(list());
  const bool of_run = path.size() >= 3 && (path[0] == "api" || path[0] == "files") && path[1] == "run";
  if (!of_run) return not_found("There is no such page.");
  auto* run = runs_.find(path[2], path.size() == 4 && path[3] == "curves");
  if (run == nullptr) return not_found("There is no such run.");
  return answer_of_run(*run, request);
}

web::Reply Site::answer_of_run(ShownRun& run, const web::Request& request) {
  const std::string what = request.path.size() == 4 ? request.path[3] : "";
  if (request.path.size() > 4) return not_found("There is no such page.");
  if (request.path[0] == "files") {
    if (what == "report.html") return file_of_run(run.folder / what, "text/html; charset=utf-8");
    if (what == "pipeline.svg") return file_of_run(run.folder / what, "image/svg+xml");
    return not_found("There is no such file.");
  }
  if (what.empty()) return json_reply(details_of(run));
  if (what == "curves") return curves(run, request);
  if (what == "ranks") return json_reply(rank_table(run.folder));
  if (what == "log") {
    const int64_t rank = whole_or(request, "rank", 0);
    return json_reply(log_of(run, static_cast<int>(std::clamp<int64_t>(rank, 0, 1 << 20))));
  }
  if (what == "answers") return json_reply(answers_of(run));
  return not_found("There is no such page.");
}

// ?width=N[&from=STEP&to=STEP], or what is new: ?generation=G&since=ROWS; both &evaluations=SEEN.
web::Reply Site::curves(ShownRun& run, const web::Request& request) const {
  const auto& curves = run.followed->curves();
  const int64_t since = whole_or(request, "since", -1), rows = static_cast<int64_t>(curves.rows());
  const bool goes_on = since >= 0 && since <= rows && rows - since <= kMostNewRows &&
                       whole_or(request, "generation", -1) == curves.generation();
  const int64_t width = std::clamp<int64_t>(whole_or(request, "width", 1000), 10, kMostPoints);
  const auto view = goes_on ? Curves::View{static_cast<size_t>(since), curves.rows(), 0}
                            : curves.between(whole_or(request, "from", 0),
                                             whole_or(request, "to", std::numeric_limits<int64_t>::max()),
                                             static_cast<size_t>(width));
  return json_reply(format("{{{},\"part\":{},{}}}", curves.members(view), run.followed->part_read(),
                           evaluations_text(*run.followed, goes_on ? whole_or(request, "evaluations", 0) : 0)));
}

web::Reply Site::prometheus() {
  MergedFamilies families;
  std::vector<std::string> running;
  for (const auto& run : runs_.all())
    if (run->record.status == "running" && running.size() < RunList::kMostFollowed) running.push_back(run->id);
  for (const auto& id : running) runs_.find(id, /*follow=*/true);
  for (const auto& run : runs_.all()) {
    if (!run->followed) continue;
    auto newest = run->followed->newest();
    newest.run = run->id, newest.status = run->record.status;
    families.add(report::prometheus_text(newest));
  }
  return {200, "text/plain; version=0.0.4; charset=utf-8", families.text()};
}

void Site::refresh_list(const std::function<void(const std::string&)>& tell) {
  next_list_ = base::now() + kBetweenLists;
  for (const auto& id : runs_.refresh()) tell(web::event_text("gone", json_text(Json(id))));
}

milliseconds Site::tick(bool watched, const std::function<void(const std::string&)>& tell) {
  const double now = base::now();
  if (!watched && now > last_asked_ + kIdleAfter) return kBetweenReads;
  if (now >= next_list_) refresh_list(tell);
  bool more = false;
  for (const auto& run : runs_.all()) {
    if (run->followed) more |= run->followed->read_on().more;
    std::string line = json_text(run->summary());
    if (line == run->told) continue;
    tell(web::event_text("run", line));
    run->told = std::move(line);
  }
  return more ? kAtOnce : kBetweenReads;
}

}  // namespace hyperion::dash

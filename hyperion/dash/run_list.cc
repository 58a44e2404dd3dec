#include "hyperion/dash/run_list.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::dash {
namespace {

using base::Json;

template <class T>
Json number_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

uint64_t bytes_of(const base::Path& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : size;
}

Json standing_of(const FollowedRun& run) {
  return {{"generation", run.curves().generation()},
          {"rows", run.curves().rows()},
          {"evaluations", run.evaluations_seen()},
          {"nonfinite", number_or_null(run.first_nonfinite())},
          {"damaged", run.damaged()},
          {"part", run.part_read()}};
}

}  // namespace

Json ShownRun::summary() const {
  Json line{{"id", id},
            {"name", record.name},
            {"status", record.status},
            {"failure", record.failure},
            {"ended", record.ended},
            {"step", record.step},
            {"steps", record.steps},
            {"loss", number_or_null(record.loss)},
            {"created", record.created},
            {"recipe", record.recipe},
            {"log", bytes_of(folder / "logs" / "rank-0.log")},
            {"metrics", nullptr}};
  if (!followed) return line;
  line["metrics"] = standing_of(*followed);
  if (const auto& newest = followed->newest().step) line["step"] = newest->step, line["loss"] = newest->loss;
  return line;
}

ShownRun& RunList::entry(const base::Path& folder) {
  for (const auto& run : runs_)
    if (run->folder == folder) return *run;
  const std::string name = folder.filename().string();
  std::string id = name;
  const auto taken = [&](const auto& run) { return run->id == id; };
  for (int i = 2; std::any_of(runs_.begin(), runs_.end(), taken); ++i) id = base::format("{}-{}", name, i);
  runs_.push_back(std::make_unique<ShownRun>());
  runs_.back()->id = id, runs_.back()->folder = folder, runs_.back()->record.name = name;
  return *runs_.back();
}

void RunList::read_record(ShownRun& run) const {
  std::error_code none;
  const auto changed = std::filesystem::last_write_time(run.folder / "run.json", none);
  if (none || changed != run.changed) {
    run.changed = none ? decltype(changed)() : changed;
    try {
      run.record = report::read_run_record(base::real_files(), run.folder);
    } catch (const base::Error& error) {
      run.record = {};
      run.record.name = run.folder.filename().string();
      if (!none) run.record.status = "damaged", run.record.failure = error.what();
    }
    run.record.folder = run.folder;
  }
  // One that said it runs may have been killed since, and one that was killed may be resumed.
  if (run.record.status == "killed") run.record.status = "running";
  if (run.record.status == "running") run.record.status = shown_.status(run.record);
}

std::vector<std::string> RunList::refresh() {
  std::set<base::Path> there;
  for (const auto& folder : shown_.folders()) {
    there.insert(folder);
    read_record(entry(folder));
  }
  std::stable_sort(runs_.begin(), runs_.end(),
                   [](const auto& a, const auto& b) { return a->record.created > b->record.created; });
  std::vector<std::string> gone;
  left_out_ = 0;
  size_t kept = 0;
  std::erase_if(runs_, [&](const auto& run) {
    const bool there_still = there.contains(run->folder);
    if (there_still && kept < kMostShown) return ++kept, false;
    left_out_ += there_still ? 1 : 0;
    gone.push_back(run->id);
    return true;
  });
  return gone;
}

ShownRun* RunList::find(const std::string& id, bool follow) {
  const auto at = std::find_if(runs_.begin(), runs_.end(), [&](const auto& run) { return run->id == id; });
  if (at == runs_.end()) return nullptr;
  ShownRun* run = at->get();
  if (follow) {
    run->asked = ++asks_;
    if (!run->followed) {
      make_room();
      run->followed = std::make_unique<FollowedRun>(run->folder);
    }
  }
  return run;
}

void RunList::make_room() {
  std::vector<ShownRun*> followed;
  for (const auto& run : runs_)
    if (run->followed) followed.push_back(run.get());
  if (followed.size() < kMostFollowed) return;
  const auto later = [](const ShownRun* a, const ShownRun* b) { return a->asked < b->asked; };
  (*std::min_element(followed.begin(), followed.end(), later))->followed.reset();
}

}  // namespace hyperion::dash

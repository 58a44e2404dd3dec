// The runs that are shown, under names that are good for an address, and what a line says of each.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/dash/followed_run.h"
#include "hyperion/report/run_record.h"

namespace hyperion::dash {

struct ShownRuns {
  std::function<std::vector<base::Path>()> folders;             // asked again and again: runs come and go
  std::function<std::string(const report::RunRecord&)> status;  // as people are told it
  bool named = false;                                           // the user named each of them
};

struct ShownRun {
  std::string id;
  base::Path folder;
  report::RunRecord record;
  std::unique_ptr<FollowedRun> followed;  // from when somebody asked for its curves
  int64_t asked = 0;                      // the later, the higher
  std::string told;                       // the summary that readers have
  std::filesystem::file_time_type changed = {};

  base::Json summary() const;
};

class RunList {
 public:
  static constexpr size_t kMostShown = 200;
  static constexpr size_t kMostFollowed = 8;

  explicit RunList(ShownRuns shown) : shown_(std::move(shown)) {}

  // Looks again for runs that came, went or changed their run.json. Returns the ids of those that went.
  std::vector<std::string> refresh();
  // Nothing where no run is called so. `follow`: its metrics are wanted, from now on.
  ShownRun* find(const std::string& id, bool follow);
  const std::vector<std::unique_ptr<ShownRun>>& all() const { return runs_; }  // newest first
  bool named() const { return shown_.named; }
  size_t left_out() const { return left_out_; }

 private:
  ShownRun& entry(const base::Path& folder);
  void read_record(ShownRun& run) const;
  void make_room();

  ShownRuns shown_;
  std::vector<std::unique_ptr<ShownRun>> runs_;
  size_t left_out_ = 0;
  int64_t asks_ = 0;
};

}  // namespace hyperion::dash

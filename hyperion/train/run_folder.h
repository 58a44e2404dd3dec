// A run's folder: made once, locked while in use, and laid out as users expect.
#pragma once
#include <memory>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/report/run_record.h"

namespace hyperion::train {

class RunLock;

class RunFolder {
 public:
  // Makes `runs/name` with its logs folder and configuration. An existing one is a ConfigError: nothing is overwritten.
  static RunFolder create(base::FileSystem& files, const base::Path& runs, const std::string& name,
                          const std::string& resolved_toml);
  // The same for a name of our own choosing: where it exists already, `name-2`, `name-3`, ...
  static RunFolder create_numbered(base::FileSystem& files, const base::Path& runs, const std::string& name,
                                   const std::string& resolved_toml);
  // Whether a process is training it now. Needs no more than to read the folder.
  static bool in_use(const base::Path& path);
  // The status of a record for people: "killed" where it says that it runs, and no process trains it.
  static std::string status(const report::RunRecord& record);
  // Opens an existing one; a ConfigError where another process is using it.
  static RunFolder open(base::FileSystem& files, const base::Path& path);

  // The folder of a run that rank 0 has made or opened, for the other ranks: its lock is rank 0's.
  static RunFolder join(const base::Path& path) { return {path, nullptr}; }

  // Removes what a run writes, and the folder where that leaves it empty; names what stays. For who opened it.
  std::string remove(base::FileSystem& files);
  // Gives it another name beside itself, in run.json too; a ConfigError where that is taken. What fails changes
  // nothing. For who opened it.
  void rename(base::FileSystem& files, const std::string& name);

  // False where the folder that was opened is not at its path any more: moved or removed meanwhile. For who opened it.
  bool is_there() const;
  void check_there(int64_t saved_step) const;  // throws Error where it is not; `saved_step`: of the last checkpoint

  const base::Path& path() const { return path_; }
  std::string name() const { return path_.filename().string(); }
  base::Path config() const { return path_ / "config.resolved.toml"; }
  base::Path model() const { return path_ / "model.json"; }  // what is trained, as a config.json
  base::Path checkpoints() const { return path_ / "checkpoints"; }
  base::Path metrics() const { return path_ / "metrics.jsonl"; }
  base::Path pipeline() const { return path_ / "pipeline.svg"; }  // the schedule of its stages
  base::Path report() const { return path_ / "report.html"; }

 private:
  static RunFolder begin(base::FileSystem& files, const base::Path& path, const std::string& resolved_toml);
  RunFolder(base::Path path, std::shared_ptr<const RunLock> lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  base::Path path_;
  std::shared_ptr<const RunLock> lock_;
};

// Throws ConfigError where a new run cannot be called so: its name is a folder's, and a word of commands.
void check_run_name(const std::string& name);

// "recipe-20261115-014000" for recipes/recipe.toml.
std::string default_run_name(const base::Path& recipe, double unix_seconds);

// What this run is computed on and with, for run.json and the report.
std::vector<std::pair<std::string, std::string>> environment_facts(const std::string& device_text);

}  // namespace hyperion::train

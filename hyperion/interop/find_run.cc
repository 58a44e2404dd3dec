#include "hyperion/interop/find_run.h"

#include <cstdlib>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::interop {

using base::format;
using base::Path;

bool is_run(base::FileSystem& files, const Path& folder) {
  return files.exists(folder / "config.resolved.toml") || files.exists(folder / "run.json");
}

bool names_path(const std::string& word) {
  return word.find('/') != word.npos || word.starts_with('.') || word.starts_with('~');
}

Path runs_folder_as_set() {
  const char* folder = std::getenv("HYPERION_RUNS");
  return folder != nullptr && *folder != '\0' ? Path(folder) : Path("runs");
}

Path runs_folder() {
  const Path folder = runs_folder_as_set();
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    throw base::ConfigError(format("the runs cannot lie in {}: it is not a folder", folder.string()),
                            "set HYPERION_RUNS to a folder");
  return folder;
}

std::optional<Path> named_run(base::FileSystem& files, const std::string& word) {
  if (names_path(word)) {
    if (is_run(files, word)) return Path(word).lexically_normal();
    const bool only_ends = !word.starts_with('.') && !word.starts_with('~') && word.find('/') + 1 == word.size();
    if (!only_ends || files.exists(word)) return {};
  }
  const Path among = runs_folder() / word;
  if (is_run(files, among)) return among;
  return is_run(files, word) ? std::optional(Path(word).lexically_normal()) : std::nullopt;
}

namespace {

// A folder of that path that is no run, or none at all.
[[noreturn]] void refuse_path(base::FileSystem& files, const std::string& word) {
  if (files.exists(word))
    throw base::ConfigError(format("{} is no run: it holds neither config.resolved.toml nor run.json", word),
                            "`hyperion runs ls` lists the runs; HYPERION_RUNS names another folder");
  std::error_code ignored;
  const Path path = Path(word).has_filename() ? Path(word) : Path(word).parent_path(), above = path.parent_path();
  std::vector<std::string> names;
  for (const auto& beside : files.list(above.empty() ? Path(".") : above))
    if (std::filesystem::is_directory(beside, ignored)) names.push_back(beside.filename().string());
  const std::string near = base::nearest(path.filename().string(), names.data(), names.data() + names.size());
  throw base::ConfigError(format("there is no folder {}", word),
                          !near.empty() ? format("did you mean {}?", (above / near).string())
                          : word.starts_with('~')
                              ? "the shell puts your home for ~ only where a word begins with it: write $HOME"
                              : "a run may also be called by its name alone: `hyperion runs ls` lists them");
}

// `mine@best`, `mine@last` or `mine@12`, where mine is a run.
void refuse_checkpoint_as_run(base::FileSystem& files, const std::string& word) {
  const size_t at = word.rfind('@');
  if (at == word.npos || at == 0) return;
  const std::string run = word.substr(0, at), which = word.substr(at + 1);
  const bool step = !which.empty() && which.find_first_not_of("0123456789") == which.npos;
  if (!step && which != "best" && which != "last") return;
  if (!named_run(files, run)) return;
  throw base::ConfigError(format("{} is a checkpoint, and this takes a run", word),
                          format("leave @{} out: {}", which, run));
}

}  // namespace

Path find_run(base::FileSystem& files, const std::string& name_or_path) {
  if (name_or_path.empty()) throw base::ConfigError("no run was named", "`hyperion runs ls` lists them");
  if (const auto run = named_run(files, name_or_path))
    return run->has_filename() ? *run : run->parent_path();  // of "mine/"
  refuse_checkpoint_as_run(files, name_or_path);
  if (names_path(name_or_path) || files.exists(name_or_path)) refuse_path(files, name_or_path);
  std::vector<std::string> names;
  for (const auto& path : files.list(runs_folder()))
    if (is_run(files, path)) names.push_back(path.filename().string());
  const std::string near = base::nearest(name_or_path, names.data(), names.data() + names.size());
  throw base::ConfigError(
      format("no run called \"{}\" in {}, and no folder of that name here", name_or_path, runs_folder().string()),
      near.empty() ? "`hyperion runs ls` lists the runs; HYPERION_RUNS names another folder"
                   : format("did you mean {}?", near));
}

}  // namespace hyperion::interop

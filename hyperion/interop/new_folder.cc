#include "hyperion/interop/new_folder.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::interop {
namespace {

constexpr const char* kHeld = ".lock";  // by the process that fills the folder, on whatever machine it runs

// Removes what processes that were killed left beside `target`: no one holds their locks any more.
void sweep_leftovers(base::FileSystem& files, const base::Path& target) {
  const base::Path parent = target.has_parent_path() ? target.parent_path() : base::Path(".");
  if (!files.exists(parent)) return;
  for (const base::Path& path : files.list(parent)) {
    if (!path.filename().string().starts_with(target.filename().string() + ".partial-")) continue;
    if (!files.exists(path / kHeld)) continue;
    try {
      const base::FileLock lock(path / kHeld, "it is being written");
      files.remove_all(path);
    } catch (const base::Error&) {  // another process fills it, or it is not ours to remove
    }
  }
}

}  // namespace

void write_new_folder(base::FileSystem& files, const base::Path& to,
                      const std::function<void(const base::Path& partial)>& fill) {
  const base::Path target = to.has_filename() ? to : to.parent_path();
  std::error_code ignored;
  if (std::filesystem::is_symlink(target, ignored) && !files.exists(target))
    throw base::ConfigError(base::format("{} is a link to {}, which is not there", target.string(),
                                         std::filesystem::read_symlink(target, ignored).string()),
                            "name that folder itself, or remove the link");
  if (files.exists(target))
    throw base::ConfigError(base::format("{} already exists", target.string()),
                            "name a folder that does not, or remove that one");
  const base::Path partial = base::partial_path(target);
  sweep_leftovers(files, target);
  try {
    files.create_folders(partial);
    const base::FileLock lock(partial / kHeld, base::format("{} is being written", partial.string()));
    fill(partial);
    files.remove_all(partial / kHeld);
    files.rename(partial, target);
  } catch (...) {
    try {
      files.remove_all(partial);
    } catch (const base::FileError&) {  // the first failure is the one to tell
    }
    throw;
  }
}

}  // namespace hyperion::interop

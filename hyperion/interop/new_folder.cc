#include "hyperion/interop/new_folder.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::interop {

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
  try {
    files.create_folders(partial);
    fill(partial);
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

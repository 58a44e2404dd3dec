#include "hyperion/cli/result_folder.h"

#include <filesystem>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {

base::Path result_folder(const std::string& given, const std::string& kind) {
  const base::Path parent = given.empty() ? interop::runs_folder() : base::Path(given);
  base::real_files().create_folders(parent);
  if (!given.empty()) return parent;
  const auto stem = base::format("{}-{}", kind, base::file_stamp(base::real_clock().unix_seconds()));
  for (int turn = 1;; ++turn) {  // another may have begun in the same second
    const auto folder = parent / (turn == 1 ? stem : base::format("{}-{}", stem, turn));
    std::error_code error;
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error)
      throw base::FileError(base::format("cannot make {}: {}", folder.string(), error.message()), error.value());
  }
}

}  // namespace hyperion::cli

#include "hyperion/command/result_folder.h"

#include <filesystem>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {
namespace {

base::Path made_folder(const std::string& name, const std::string& given) {
  auto& files = base::real_files();
  if (!given.empty()) {
    files.create_folders(given);
    return given;
  }
  files.create_folders(interop::runs_folder());
  const auto stem = base::format("{}-{}", name, base::file_stamp(base::real_clock().unix_seconds()));
  for (int turn = 1;; ++turn) {
    const auto folder = interop::runs_folder() / (turn == 1 ? stem : base::format("{}-{}", stem, turn));
    std::error_code error;
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error)
      throw base::FileError(base::format("cannot make {}: {}", folder.string(), error.message()), error.value());
  }
}

}  // namespace

ResultFolder::ResultFolder(const std::string& name, const std::string& given)
    : was_there_(!given.empty() && base::real_files().exists(given)), path_(made_folder(name, given)) {}

ResultFolder::~ResultFolder() {
  std::error_code ignored;
  if (!was_there_) std::filesystem::remove(path_, ignored);  // only an empty one goes
}

}  // namespace hyperion::cli

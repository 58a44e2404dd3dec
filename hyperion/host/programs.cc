#include "hyperion/host/programs.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <system_error>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

bool is_program(const base::Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<base::Path> listed(const base::Path& folder) {
  try {
    return base::real_files().list(folder);
  } catch (const base::FileError&) {
    return {};
  }
}

std::vector<base::Path> usual_folders(const base::Path& root) {
  std::vector<base::Path> folders = {root / "usr/local/cuda/bin", root / "opt/rocm/bin"};
  // Entries come sorted by name, so the last of a kind is the newest.
  const auto add_newest_first = [&](const base::Path& parent, const char* prefix, const char* below) {
    const auto entries = listed(parent);
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
      if (entry->filename().string().starts_with(prefix)) folders.push_back(*entry / below);
  };
  add_newest_first(root / "opt/nvidia/nsight-systems", "", "bin");
  add_newest_first(root / "opt/nvidia/nsight-compute", "", "");
  add_newest_first(root / "usr/local", "cuda-", "bin");
  add_newest_first(root / "opt", "rocm-", "bin");
  return folders;
}

}  // namespace

std::optional<base::Path> find_program(const std::string& name, std::string_view search_path, const base::Path& root) {
  std::vector<base::Path> folders;
  for (const std::string& folder : split(search_path, ':')) folders.emplace_back(folder);
  for (const base::Path& folder : usual_folders(root)) folders.push_back(folder);
  for (const base::Path& folder : folders)
    if (is_program(folder / name)) return folder / name;
  return std::nullopt;
}

std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return path.string();
  const char* named = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return named == nullptr ? "hyperion" : std::filesystem::absolute(named).string();
}

}  // namespace hyperion::host

#include "tests/host/support_tree.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "hyperion/base/error.h"

namespace hyperion::host {

Tree::Tree() {
  std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-host-XXXXXX").string();
  HYPERION_CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary folder");
  root_ = pattern;
}
Tree::~Tree() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

Tree& Tree::file(const std::string& path, const std::string& content) {
  const base::Path whole = root_ / base::Path(path).relative_path();
  base::real_files().create_folders(whole.parent_path());
  base::real_files().create(whole)->append(content);
  return *this;
}

Tree& Tree::program(const std::string& path) {
  file(path, "#!/bin/sh\n");
  ::chmod((root_ / base::Path(path).relative_path()).c_str(), 0755);
  return *this;
}

}  // namespace hyperion::host

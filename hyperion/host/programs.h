// Programs installed on this machine.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hyperion/base/files.h"

namespace hyperion::host {

// Where a program lies: the first hit in the folders of `search_path` (as PATH has them), else in the usual places of
// the CUDA toolkit, Nsight and ROCm under `root` (newest version first).
std::optional<base::Path> find_program(const std::string& name, std::string_view search_path,
                                       const base::Path& root = "/");

// The file of the program that runs here, as far as that can be known: without /proc, as it was named when it was
// started.
std::string own_program();

}  // namespace hyperion::host

// SLURM's short form of many host names.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::host {

// "gpu[08-10,12],login" is gpu08, gpu09, gpu10, gpu12, login. ConfigError where it cannot be read.
std::vector<std::string> expand_hosts(std::string_view list);

}  // namespace hyperion::host

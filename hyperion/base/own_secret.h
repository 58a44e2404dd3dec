// A secret of this user's, kept in a file of the configuration folder that nobody else can read.
#pragma once
#include <functional>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::base {

// $XDG_CONFIG_HOME/hyperion/NAME, or the same in ~/.config; empty where there is neither.
Path own_secret_file(const std::string& name);

// What the file holds; where it is not there yet, `make` says what. Of several processes that make it at once one is
// right, and all return that. Throws ConfigError where others can read it, or it is longer than a secret is, and
// FileError with `hint` where it cannot be written.
std::string own_secret(const Path& path, const std::function<std::string()>& make, const std::string& hint);

}  // namespace hyperion::base

// A path that a recipe reads is looked for beside the recipe first, then in the current folder. What is written, and
// what flags and variables say, starts at the current folder.
#pragma once
#include <initializer_list>
#include <string>

#include "hyperion/base/config.h"

namespace hyperion::cli {

// The settings whose values are paths that are read.
bool is_read_path(const std::string& setting);

// Paths that the recipe itself names, and that are there beside it, become paths from here.
void find_beside_recipe(base::Settings& settings, const std::string& recipe);

// Throws ConfigError that names both places where a path of the recipe is in neither.
void require_paths(const base::Settings& settings, const std::string& recipe, std::initializer_list<const char*> names);

}  // namespace hyperion::cli

// Short recipes for the usual kinds of training, for `hyperion init --template`.
#pragma once
#include <string>
#include <vector>

namespace hyperion::cli {

struct RecipeTemplate {
  const char* name;
  const char* meaning;
  const char* text;  // a recipe; what is to be changed first stands first
};

const std::vector<RecipeTemplate>& recipe_templates();
std::vector<std::string> template_names();
// Throws ConfigError where there is none of that name.
const RecipeTemplate& find_template(const std::string& name);

}  // namespace hyperion::cli

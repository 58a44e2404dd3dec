#include "hyperion/base/output_file.h"

#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {

Path output_file(const Path& named, std::string_view ending) {
  std::error_code error;
  const auto type = std::filesystem::status(named, error).type();
  using Type = std::filesystem::file_type;
  if (type == Type::directory)
    throw ConfigError(format("{} is a folder", named.string()), "name a file for the result");
  if (type != Type::regular && type != Type::not_found && type != Type::none)
    throw ConfigError(format("{} is a device or a pipe, and a result is written whole to a file", named.string()),
                      "name a file");
  if (!ending.empty() && named.extension() != ending)
    throw ConfigError(format("{} does not end with {}, which is what would be written", named.string(), ending),
                      format("name it {}", Path(named).replace_extension(ending).string()));
  if (!std::filesystem::is_symlink(named, error)) return named;
  const Path target = std::filesystem::weakly_canonical(named, error);
  if (error) throw FileError(format("cannot follow {}", named.string()), error.value());
  return target;
}

}  // namespace hyperion::base

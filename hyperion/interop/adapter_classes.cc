#include "hyperion/interop/adapter_classes.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Json;
using base::Path;

constexpr const char* kNamesOfClasses = "id2label";
constexpr const char* kClassesHint = "export the adapter again; without the file its classes have no names";

// By class; empty where not every class has one.
std::vector<std::string> names_of_classes(const Json& config) {
  const auto found = config.is_object() ? config.find(kNamesOfClasses) : config.end();
  if (found == config.end() || !found->is_object()) return {};
  std::vector<std::string> names;
  for (size_t i = 0; i < found->size(); ++i) {
    const auto name = found->find(std::to_string(i));
    if (name == found->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

std::vector<std::string> names_in_file(base::FileSystem& files, const Path& path) {
  return names_of_classes(base::parse_json(base::read_description(files, path), path.string()));
}

}  // namespace

std::vector<std::string> adapter_classes(base::FileSystem& files, const Path& folder, int64_t count) {
  std::error_code ignored;
  // A link that leads nowhere is read too, which says so.
  if (const Path path = folder / kAdapterClasses; files.exists(path) || std::filesystem::is_symlink(path, ignored)) {
    auto names = names_in_file(files, path);
    if (names.empty())
      throw base::CorruptError(format("{}: {} names no classes", path.string(), kNamesOfClasses), kClassesHint);
    if (static_cast<int64_t>(names.size()) == count) return names;
    throw base::CorruptError(format("{}: {} names {} classes, and the head used with it tells {}", path.string(),
                                    kNamesOfClasses, names.size(), count),
                             kClassesHint);
  }
  const Path path = folder / "config.json";
  auto names = files.exists(path) ? names_in_file(files, path) : std::vector<std::string>();
  return static_cast<int64_t>(names.size()) == count ? names : std::vector<std::string>();
}

void write_adapter_classes(base::FileSystem& files, const Path& folder, const std::string& config) {
  const Json json = base::parse_json(config, "the model");
  const auto names = names_of_classes(json);
  bool named = false;
  for (size_t i = 0; i < names.size(); ++i) named |= names[i] != format("LABEL_{}", i);
  if (!named) return;
  const Json classes = {{kNamesOfClasses, json.at(kNamesOfClasses)}, {"label2id", json.at("label2id")}};
  base::write_atomically(files, folder / kAdapterClasses, classes.dump(2) + "\n");
}

}  // namespace hyperion::interop

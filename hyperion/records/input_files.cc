#include "hyperion/records/input_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"
#include "hyperion/text/unicode.h"

namespace hyperion::records {
namespace {

namespace fs = std::filesystem;
using base::Path;
using Parts = std::vector<std::string>;

bool is_pattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

// An unreadable folder would otherwise look like one without files.
std::vector<fs::directory_entry> entries_of(const Path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> all;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end; it.increment(error))
    all.push_back(*it);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    throw base::FileError(base::format("cannot list {}", folder.string()), error.value());
  return all;
}

void expand(const Path& folder, const Parts& parts, size_t at, std::vector<Path>& files) {
  std::error_code ignored;
  const std::string& part = parts[at];
  const bool last = at + 1 == parts.size();
  if (part == "**" && !last) {
    expand(folder, parts, at + 1, files);
    for (const auto& entry : entries_of(folder))
      if (const std::string name = entry.path().filename(); entry.is_directory(ignored) && !entry.is_symlink(ignored))
        if (name[0] != '.') expand(folder / name, parts, at, files);
    return;
  }
  if (!is_pattern(part)) {
    if (!last) return expand(folder / part, parts, at + 1, files);
    if (fs::is_regular_file(folder / part, ignored)) files.push_back(folder / part);
    return;
  }
  for (const auto& entry : entries_of(folder)) {
    const std::string name = entry.path().filename();
    if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) != 0) continue;
    if (last && entry.is_regular_file(ignored)) files.push_back(folder / name);
    if (!last && entry.is_directory(ignored)) expand(folder / name, parts, at + 1, files);
  }
}

std::vector<Path> matches(const std::string& pattern) {
  std::error_code ignored;
  if (fs::is_regular_file(pattern, ignored)) return {pattern};
  if (fs::is_directory(pattern, ignored))
    throw base::ConfigError(base::format("\"{}\" is a folder", pattern),
                            base::format("name its files, as \"{}\"", (Path(pattern) / "*.jsonl").string()));
  const Path path(pattern);
  Parts parts;
  for (const auto& part : path.relative_path())
    if (!part.empty()) parts.push_back(part);
  std::vector<Path> files;
  if (!parts.empty() && is_pattern(pattern)) expand(path.root_path(), parts, 0, files);
  if (files.empty())
    throw base::ConfigError(
        base::format("no file matches \"{}\"", pattern),
        base::format("check the spelling; a relative path starts at {}", fs::current_path(ignored).string()));
  std::sort(files.begin(), files.end(), [](const Path& a, const Path& b) { return a.native() < b.native(); });
  return files;
}

}  // namespace

std::vector<Path> input_files(const std::vector<std::string>& patterns) {
  std::vector<Path> files;
  std::set<std::string> seen;
  for (const auto& pattern : patterns)
    for (auto& file : matches(pattern))
      if (seen.insert(file.lexically_normal()).second) files.push_back(std::move(file));
  return files;
}

void check_utf8_path(const Path& path) {
  const std::string& bytes = path.native();
  if (text::valid_prefix(bytes) == bytes.size()) return;
  throw base::ConfigError(base::format("the name {} is not UTF-8", shown_in_utf8(bytes)),
                          "rename the file or folder: names are kept in JSON, which holds UTF-8 alone");
}

std::string shown_in_utf8(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const size_t valid = text::valid_prefix(name);
    out += base::printable(name.substr(0, valid));
    name.remove_prefix(valid);
    if (name.empty()) break;
    out += base::format("\\x{:02x}", static_cast<unsigned char>(name.front()));
    name.remove_prefix(1);
  }
  return out;
}

}  // namespace hyperion::records

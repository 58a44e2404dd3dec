#include "tests/end_to_end/support_tree.h"

#include <sstream>

namespace hyperion::testing {

namespace fs = std::filesystem;

std::map<std::string, std::string> tree(const fs::path& folder) {
  std::map<std::string, std::string> found;
  std::error_code missing;
  for (const auto& entry : fs::recursive_directory_iterator(folder, missing)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_directory()) {
      found[name + "/"] = "";
    } else {
      found[name] = read_file(entry.path());
    }
  }
  return found;
}

std::string leftovers(const fs::path& folder) {
  std::string names;
  for (const auto& [name, content] : tree(folder))
    if (name.find(".partial") != name.npos || name.find(".replaced") != name.npos) names += name + " ";
  return names;
}

std::vector<std::string> text_data(const Scratch& scratch) {
  const fs::path path = scratch.path() / "words.txt";
  std::string text;
  for (int i = 0; i < 800; ++i) text += "the " + std::to_string(i * i % 977) + "th word\n";
  write_file(path, text);
  return {"--data.source=text", "--data.path=" + path.string()};
}

namespace {
std::string line_with(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(start)) return line;
  return "";
}
}  // namespace

std::string error_line(const Finished& finished) { return line_with(finished.err, "error: "); }
std::string hint_line(const Finished& finished) { return line_with(finished.err, "hint: "); }

}  // namespace hyperion::testing

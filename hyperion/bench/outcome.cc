#include "hyperion/bench/outcome.h"

#include <algorithm>

#include "hyperion/base/format.h"

namespace hyperion::bench {

void write_outcome(const Outcome& outcome, const base::Path& folder, base::FileSystem& files) {
  files.create_folders(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    if (!text.empty()) base::write_atomically(files, folder / name, text);
  };
  write(outcome.name + ".txt", outcome.table);
  write(outcome.name + ".csv", outcome.csv);
  for (const auto& [name, svg] : outcome.pictures) write(name, svg);
  write(outcome.name + ".json", outcome.json);
}

std::string noise_text(const profile::Spread& spread) {
  return spread.repeats < 2 ? "" : base::format("{:.1f}%", 50 * (spread.high - spread.low) / spread.median);
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& text_columns) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool left = std::find(text_columns.begin(), text_columns.end(), i) != text_columns.end();
      line += (i == 0 ? "" : "  ") +
              (left ? base::format("{:<{}}", row[i], widths[i]) : base::format("{:>{}}", row[i], widths[i]));
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string csv_text(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      if (row[i].find_first_of(",\"\n") == std::string::npos) {
        text += row[i];
        continue;
      }
      text += '"';
      for (const char letter : row[i]) text += letter == '"' ? std::string("\"\"") : std::string(1, letter);
      text += '"';
    }
    text += '\n';
  }
  return text;
}

}  // namespace hyperion::bench

// What a bench hands to the terminal and leaves in its folder.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct Outcome {
  std::string name;                                           // of its files: "train"
  std::string table, json, csv;                               // the table for people; an empty text is not written
  std::vector<std::pair<std::string, std::string>> pictures;  // file name and SVG
};

// NAME.txt, NAME.json, NAME.csv and the pictures, each whole or not at all.
void write_outcome(const Outcome& outcome, const base::Path& folder, base::FileSystem& files = base::real_files());

// Columns under each other, two spaces between them, to the right but for those of text. The first row is the heading.
std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& text_columns = {0});
std::string noise_text(
    const profile::Spread& spread);  // half the way from low to high, in percent; nothing for a single repeat
std::string csv_text(const std::vector<std::vector<std::string>>& rows);  // quoted where a cell needs it

}  // namespace hyperion::bench

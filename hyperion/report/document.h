// A report of sections, as a page or as Markdown.
#pragma once
#include <string>
#include <vector>

#include "hyperion/report/plot.h"

namespace hyperion::report {

using TextTable = std::vector<std::vector<std::string>>;  // the first row is the heading

struct DocumentSection {
  std::string heading;
  std::vector<Plot> plots = {};             // the first the widest; Markdown has none
  TextTable rows = {};                      // fewer than two: none
  std::vector<std::string> sentences = {};  // above the table
};

struct Document {
  std::string title, lead;
  std::vector<DocumentSection> sections;
};

std::string document_page(const Document& document);
std::string document_markdown(const Document& document);

}  // namespace hyperion::report

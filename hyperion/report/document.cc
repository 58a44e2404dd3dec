#include "hyperion/report/document.h"

#include <string_view>

#include "hyperion/report/html.h"

namespace hyperion::report {
namespace {

// What would end a cell, or be more than text, is escaped.
std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\`*_|<>[]#").find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const auto& cell : cells) row += " " + markdown_text(cell) + " |";
  return row + "\n";
}

std::string markdown_table(const TextTable& rows) {
  std::string text = markdown_row(rows[0]) + "|";
  for (size_t i = 0; i < rows[0].size(); ++i) text += i == 0 ? "---|" : "---:|";
  text += "\n";
  for (size_t i = 1; i < rows.size(); ++i) text += markdown_row(rows[i]);
  return text;
}

}  // namespace

std::string document_page(const Document& document) {
  std::string body;
  for (const auto& part : document.sections) {
    std::string content;
    if (!part.plots.empty()) content += plot_grid(part.plots, true);
    for (const auto& sentence : part.sentences) content += paragraph(sentence);
    if (part.rows.size() > 1) content += table(part.rows[0], {part.rows.begin() + 1, part.rows.end()});
    body += section(part.heading, content);
  }
  return html_page(document.title, document.lead, body);
}

std::string document_markdown(const Document& document) {
  std::string text = "# " + markdown_text(document.title) + "\n";
  if (!document.lead.empty()) text += "\n" + markdown_text(document.lead) + "\n";
  for (const auto& part : document.sections) {
    if (part.rows.size() < 2 && part.sentences.empty()) continue;
    text += "\n## " + markdown_text(part.heading) + "\n";
    for (const auto& sentence : part.sentences) text += "\n" + markdown_text(sentence) + "\n";
    if (part.rows.size() > 1) text += "\n" + markdown_table(part.rows);
  }
  return text;
}

}  // namespace hyperion::report

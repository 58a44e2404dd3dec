#include "hyperion/report/html.h"

#include <algorithm>
#include <cctype>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/report/markup.h"

namespace hyperion::report {
namespace {

using base::format;

bool number_like(const std::string& text) {
  if (text.empty() || text == "–") return true;
  const size_t first = text[0] == '-' || text[0] == '+' ? 1 : 0;
  return first < text.size() && std::isdigit(static_cast<unsigned char>(text[first]));
}

std::vector<bool> number_columns(size_t columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> numeric(columns, !rows.empty());
  for (const auto& row : rows) {
    HYPERION_CHECK(row.size() == columns, "a table row is as long as its headings");
    for (size_t i = 0; i < columns; ++i) numeric[i] = numeric[i] && number_like(row[i]);
  }
  return numeric;
}

std::string cell(const char* tag, bool numeric, const std::string& text) {
  return format("<{0}{1}>{2}</{0}>", tag, numeric ? " class=\"number\"" : "", escaped(text));
}

}  // namespace

std::string html_page(const std::string& title, const std::string& lead, const std::string& body_html) {
  const std::string lead_html = lead.empty() ? "" : format("<p class=\"lead\">{}</p>\n", escaped(lead));
  return format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n"
      "<header><p class=\"brand\">Hyperion</p>\n<h1>{0}</h1>\n{2}</header>\n{3}</main>\n</body>\n</html>\n",
      escaped(title), page_style(), lead_html, body_html);
}

std::string html_page(const std::string& title, const std::string& body_html) {
  return html_page(title, "", body_html);
}

std::string section(const std::string& heading, const std::string& content_html, const std::string& id) {
  const std::string anchor = id.empty() ? "" : format(" id=\"{}\"", escaped(id));
  return format("<section{}>\n<h2>{}</h2>\n{}</section>\n", anchor, escaped(heading), content_html);
}

std::string folded(const std::string& summary, const std::string& content_html) {
  return format("<details>\n<summary>{}</summary>\n{}</details>\n", escaped(summary), content_html);
}

std::string links(const std::vector<std::pair<std::string, std::string>>& to) {
  std::string out = "<nav class=\"links\">\n";
  for (const auto& [id, text] : to) out += format("<a href=\"#{}\">{}</a>\n", escaped(id), escaped(text));
  return out + "</nav>\n";
}

std::string paragraph(const std::string& text) { return format("<p>{}</p>\n", escaped(text)); }

std::string ranked(const std::vector<std::string>& sentences) {
  std::string out = "<ol class=\"ranked\">\n";
  for (const auto& sentence : sentences) out += format("<li>{}</li>\n", escaped(sentence));
  return out + "</ol>\n";
}

std::string picture(const std::string& svg) { return format("<figure class=\"scroll\">{}</figure>\n", svg); }

std::string cards(const std::vector<Card>& all) {
  std::string out = "<dl class=\"cards\">\n";
  for (const Card& card : all) {
    const std::string note = card.note.empty() ? "" : format("<dd class=\"note\">{}</dd>", escaped(card.note));
    out += format("<div class=\"card\"><dt>{}</dt><dd class=\"value\">{}</dd>{}</div>\n", escaped(card.label),
                  escaped(card.value), note);
  }
  return out + "</dl>\n";
}

std::string plot_grid(const std::vector<Plot>& plots, bool wide_first) {
  std::string out = "<div class=\"plots\">\n";
  for (size_t i = 0; i < plots.size(); ++i) {
    const bool wide = wide_first && i == 0;
    if (wide) {
      // Drawn twice: scaled down to a small window, the wide form's text would be too small to read.
      Plot plot = plots[i];
      plot.width = plot.width * 2 + 32;
      out += format("<figure class=\"wide\">{}</figure>\n", svg(plot));
    }
    out += format("<figure{}>{}</figure>\n", wide ? " class=\"narrow\"" : "", svg(plots[i]));
  }
  return out + "</div>\n";
}

std::string table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows) {
  const std::vector<bool> numeric = number_columns(headings.size(), rows);
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (size_t i = 0; i < headings.size(); ++i) out += cell("th", numeric[i], headings[i]);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) out += cell("td", numeric[i], row[i]);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string svg_image(const std::string& svg, const std::string& says) {
  std::string address;
  for (const char c : svg) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("-_.").find(c) != std::string_view::npos);
    address += plain ? std::string(1, c) : format("%{:02X}", byte);
  }
  return format("<img alt=\"{}\" style=\"background:#fff;border-radius:8px\" src=\"data:image/svg+xml,{}\">\n",
                escaped(says), address);
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : rows)
    out += format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value));
  return out + "</dl>\n";
}

}  // namespace hyperion::report

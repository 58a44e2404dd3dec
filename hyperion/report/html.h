// The parts a page is made of: a shell with the house's look, and blocks to put in it. Pages need no network and no
// script, and follow the reader's light or dark setting. A parameter called `..._html` goes in as it is; all others are
// escaped here.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hyperion/report/plot.h"

namespace hyperion::report {

// A whole document. `lead` stands under the title, may be empty.
std::string html_page(const std::string& title, const std::string& lead, const std::string& body_html);
std::string html_page(const std::string& title, const std::string& body_html);

// `id`: what links lead to; empty: none do.
std::string section(const std::string& heading, const std::string& content_html, const std::string& id = {});
// Opened by a click.
std::string folded(const std::string& summary, const std::string& content_html);
// To sections of the page: their ids and what stands there.
std::string links(const std::vector<std::pair<std::string, std::string>>& to);
std::string paragraph(const std::string& text);
// Sentences, the first the most important.
std::string ranked(const std::vector<std::string>& sentences);

// A figure that stands out: "final loss", "0.412", "at step 500".
struct Card {
  std::string label, value, note;
};
std::string cards(const std::vector<Card>& all);

// Plots in as many columns as the window has room for; the first takes the whole width where `wide_first`.
std::string plot_grid(const std::vector<Plot>& plots, bool wide_first);

// Rows as long as the headings. Columns whose every cell starts like a number are set to the right. Wide ones scroll by
// themselves.
std::string table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows);

// A picture from a file, on white. As an image it can neither run nor fetch anything, whatever it holds.
std::string svg_image(const std::string& svg, const std::string& says);

// An <svg> element as it is, with what it tells to who points at it; a wide one scrolls by itself.
std::string picture(const std::string& svg);

// Names and values, for facts.
std::string facts(const std::vector<std::pair<std::string, std::string>>& rows);

// The same look for writers of other blocks: classes .muted, .mono, .right (ok), .wrong, .badge.
const char* page_style();

}  // namespace hyperion::report

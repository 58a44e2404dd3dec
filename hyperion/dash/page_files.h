// The page's own files, put into the program by the build (cmake/embed.cmake).
#pragma once
#include <string_view>

namespace hyperion::dash {

struct PageFile {
  std::string_view name, type, text;
};
// "page.html", "app.js", ...; null where there is no such file.
const PageFile* page_file(std::string_view name);

}  // namespace hyperion::dash

// A page as a PDF, printed by a Chromium that is installed.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::cli {

// Throws ConfigError naming the package where there is no Chromium; to be asked before any work.
base::Path find_chromium();

// Whole or not at all. Throws base::Error with what Chromium said where it made none.
void write_pdf(const base::Path& chromium, const std::string& html, const base::Path& output);

}  // namespace hyperion::cli

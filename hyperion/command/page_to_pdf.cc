#include "hyperion/command/page_to_pdf.h"

#include <unistd.h>

#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/read_file.h"
#include "hyperion/command/tool_process.h"
#include "hyperion/host/programs.h"

namespace hyperion::cli {
namespace {

constexpr double kMostSeconds = 120;

// A folder beside the output for what Chromium needs, gone at the end.
class PrintFolder {
 public:
  explicit PrintFolder(const base::Path& output) : path_(base::partial_path(std::filesystem::absolute(output))) {
    base::real_files().create_folders(path_);
  }
  ~PrintFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrintFolder(const PrintFolder&) = delete;
  PrintFolder& operator=(const PrintFolder&) = delete;
  base::Path operator/(const char* name) const { return path_ / name; }

 private:
  base::Path path_;
};

}  // namespace

base::Path find_chromium() {
  const char* path = std::getenv("PATH");
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"})
    if (const auto found = host::find_program(name, path == nullptr ? "" : path)) return *found;
  throw base::ConfigError("a PDF is printed by Chromium, and there is none in PATH",
                          "apt-get install chromium; or make a page (--to html) and print it in a browser");
}

void write_pdf(const base::Path& chromium, const std::string& html, const base::Path& output) {
  resilience::Guardian guardian;
  const PrintFolder folder(output);
  auto& files = base::real_files();
  base::write_atomically(files, folder / "page.html", html);
  ToolCall call{
      {chromium.string(), "--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer",
       "--user-data-dir=" + (folder / "profile").string(), "--print-to-pdf=" + (folder / "page.pdf").string()},
      {},
      folder / "log.txt",
      {},
      kMostSeconds};
  // Its sandbox does not work for root; the page has no script and nothing from elsewhere.
  if (::geteuid() == 0) call.words.emplace_back("--no-sandbox");
  call.words.push_back("file://" + (folder / "page.html").string());
  const auto end = run_tool(call, guardian);
  const bool made = files.exists(folder / "page.pdf");
  const auto pdf = made ? files.read(folder / "page.pdf") : std::string();
  if (!end.well() || !pdf.starts_with("%PDF-")) {
    const auto said = base::read_at_most(files, folder / "log.txt", uint64_t{64} << 20);
    throw base::Error(base::format("{} made no PDF ({}): {}", chromium.string(),
                                   end.too_long ? base::format("ended after {} s", kMostSeconds)
                                                : base::format("exit code {}", end.code),
                                   base::printable_line(said.substr(said.size() - std::min<size_t>(said.size(), 300)))),
                      "make a page (--to html) and print it in a browser");
  }
  base::write_atomically(files, output, pdf);
}

}  // namespace hyperion::cli

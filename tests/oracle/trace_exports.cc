// Writes a trace in another format, for oracle/trace_export_test.py: trace_exports own|chrome|gzip|perfetto FROM TO
#include <cstdio>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/trace/export_trace.h"
#include "hyperion/trace_formats/read_any_trace.h"

int main(int argc, char** argv) {
  using namespace hyperion;
  if (argc != 4) return 2;
  using Format = trace::ExportFormat;
  const std::string_view to = argv[1];
  const auto format = to == "own"      ? Format::own
                      : to == "gzip"   ? Format::chrome_gzip
                      : to == "chrome" ? Format::chrome
                                       : Format::perfetto;
  try {
    const auto exported = trace::export_trace(base::real_files(), argv[3], trace::read_any_trace({argv[2]}), format);
    std::printf("%ld\n", static_cast<long>(exported.left_out));
  } catch (const base::Error& error) {
    std::fputs(base::error_text(error).c_str(), stderr);
    return error.exit_code();
  }
}

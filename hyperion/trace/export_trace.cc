#include "hyperion/trace/export_trace.h"

#include "hyperion/base/error.h"
#include "hyperion/trace/gzip_file.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {

std::string_view ending_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::own:
      return kTraceFileEnding;
    case ExportFormat::chrome:
      return ".json";
    case ExportFormat::chrome_gzip:
      return ".json.gz";
    default:
      return ".pftrace";
  }
}

Exported export_trace(base::FileSystem& files, const base::Path& path, const Trace& trace, ExportFormat format) {
  if (format == ExportFormat::own) {
    write_trace_file(files, path, trace);
    return {};
  }
  const auto partial = base::partial_path(path);
  Exported exported;
  try {
    auto file = files.create(partial);
    if (format == ExportFormat::chrome_gzip) file = gzip_file(std::move(file));
    if (format == ExportFormat::perfetto)
      exported = write_perfetto(trace, *file);
    else
      write_chrome(trace, *file);
    file->sync();
    file.reset();
    files.rename(partial, path);
  } catch (...) {
    try {
      files.remove_all(partial);
    } catch (const base::FileError&) {
      // The first failure is the one to tell.
    }
    throw;
  }
  return exported;
}

}  // namespace hyperion::trace

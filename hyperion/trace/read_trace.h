// Traces of Kineto (PyTorch's profiler) and of others that write Chrome's JSON or Perfetto's packets, and our own
// files.
#pragma once
#include <cstdint>
#include <functional>

#include "hyperion/base/files.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

struct ReadOptions {
  int threads = 0;                  // 0: one for each core, at most 8
  size_t window = size_t{4} << 20;  // bytes that a thread takes at a time
  bool stops = true;                // with Interrupted, where the program is asked to stop
  // Told from time to time how many bytes were read of what the file unpacks to. From any thread, never two at once.
  std::function<void(uint64_t)> progress = {};
};

// Our own file (trace_file.h), or {"traceEvents": [...], ...} or [...], plain or packed with gzip or zstd, which is
// told by the bytes. Memory beside the trace's own: a few windows. Throws CorruptError with the byte where the text is
// cut or not such JSON, FileError, records::BadRecord for a damaged packing, and Interrupted.
Trace read_trace(const base::Path& path, const ReadOptions& options = {});

}  // namespace hyperion::trace

// Our own trace file (.htrace): all that a trace holds, packed by column, a twentieth to a hundredth of the same JSON.
// docs/format_trace.md has it byte by byte. Needs libzstd; without it reading and writing throw ConfigError.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "hyperion/base/files.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

constexpr std::string_view kTraceFileEnding = ".htrace";

// Written block by block beside its name, and renamed when it is whole: whoever finds the file finds all of it. Memory
// beside the trace's own: a block of at most 65536 events, and the texts. The same trace gives the same bytes, whatever
// its strings' numbers are.
class TraceFileWriter {
 public:
  TraceFileWriter(base::FileSystem& files, base::Path path, const FileFacts& facts);
  ~TraceFileWriter();  // unfinished, the file is removed
  TraceFileWriter(const TraceFileWriter&) = delete;
  TraceFileWriter& operator=(const TraceFileWriter&) = delete;

  // All events of a trace, behind those already written. Throws FileError.
  void write(const Trace& trace);
  void finish();  // once

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

void write_trace_file(base::FileSystem& files, const base::Path& path, const Trace& trace);

// Told by its first bytes. False of what is no regular file.
bool is_trace_file(const base::Path& path);

// Every block is held against its checksum before anything in it is used, and the file must end as it was ended.
// Throws CorruptError with the byte, ConfigError for a file of a later version, FileError, and Interrupted. `progress`
// is told how many bytes were read.
Trace read_trace_file(const base::Path& path, const std::function<void(uint64_t)>& progress = {});

}  // namespace hyperion::trace

// Traces in Perfetto's format (protobuf), as AMD's rocprofv3 and rocprof-sys and our own exporter write them.
#pragma once
#include <cstdint>
#include <functional>

#include "hyperion/base/files.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

// Told by the bytes: a whole packet stands first, plain or packed with gzip or zstd. False of what is no regular file.
bool is_perfetto_file(const base::Path& path);

// TrackEvents and the tracks they are on; packets of other kinds (scheduling, samples) are passed over. The file is
// read twice, packet by packet. Throws CorruptError with the byte where it is cut within a packet or damaged, where
// times count from a clock of which nothing is said, or where packets are packed one by one; FileError,
// records::BadRecord, and Interrupted. `progress` is told how many bytes were read of what the file unpacks to.
Trace read_perfetto(const base::Path& path, const std::function<void(uint64_t)>& progress = {});

}  // namespace hyperion::trace

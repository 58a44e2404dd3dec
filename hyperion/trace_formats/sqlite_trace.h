// Traces in databases of SQLite: what `nsys export --type sqlite` makes of Nsight Systems' reports, and what rocprofv3
// and rocprof-sys write (rocpd).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

bool is_sqlite_file(const base::Path& path);  // by its first bytes

// Of each process in it that did anything, its pid, in the order of the numbers that read_sqlite_trace takes.
std::vector<int64_t> sqlite_processes(const base::Path& path);

// What one of them did: calls of the runtime, kernels, copies and fills, ranges that the program named; words and
// arguments are Kineto's. Throws as SqliteDatabase does, and CorruptError where it is neither kind or has no such
// process.
Trace read_sqlite_trace(const base::Path& path, size_t process, const std::function<void(uint64_t)>& progress = {});

}  // namespace hyperion::trace

// A file as a stream of its bytes.
#pragma once
#include <memory>

#include "hyperion/base/files.h"
#include "hyperion/records/byte_stream.h"

namespace hyperion::records {

// A plain file, gzip of one or several members, or zstd of one or several frames: told by the first bytes, not by the
// name. Damaged or cut data throws BadRecord that names the file and the byte of it; what came before has been given.
// Throws FileError where the system refuses, ConfigError for a compression that this build was made without.
// A zstd frame may ask for a window of 128 MiB (zstd's own default limit).
std::unique_ptr<ByteStream> open_bytes(const base::Path& path);

}  // namespace hyperion::records

// Streams over streams: compressed bytes in, plain bytes out. `file` is for the messages only. In a build without the
// library the function throws ConfigError.
#pragma once
#include <memory>
#include <string>

#include "hyperion/records/byte_stream.h"

namespace hyperion::records {

std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> packed, std::string file);
std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> packed, std::string file);

}  // namespace hyperion::records

// Bytes packed as a zlib stream, as PNG files hold them.
#pragma once
#include <string>

namespace hyperion::images {

// In a build without zlib the bytes are stored: a stream of the same kind, and as long as they are.
std::string zlib_stream(const std::string& bytes);

}  // namespace hyperion::images

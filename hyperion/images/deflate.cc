#include "hyperion/images/deflate.h"

#include <zlib.h>

#include "hyperion/base/error.h"

namespace hyperion::images {

std::string zlib_stream(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_DEFAULT_COMPRESSION);
  HYPERION_CHECK(result == Z_OK, "zlib packs what it has room for");
  out.resize(size);
  return out;
}

}  // namespace hyperion::images

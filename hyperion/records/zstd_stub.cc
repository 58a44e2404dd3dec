// In a build without libzstd.
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/decompress.h"

namespace hyperion::records {

std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream>, std::string file) {
  throw base::ConfigError(base::format("{} is packed with zstd, and this build was made without libzstd", file),
                          "run script/setup and build again, or unpack the file first");
}

}  // namespace hyperion::records

// In a build without zlib.
#include "hyperion/base/error.h"
#include "hyperion/trace/gzip_file.h"

namespace hyperion::trace {

std::unique_ptr<base::WritableFile> gzip_file(std::unique_ptr<base::WritableFile>) {
  throw base::ConfigError("this build was made without zlib, which packs .gz files",
                          "run script/setup and build again, or write the trace without --gzip");
}

}  // namespace hyperion::trace

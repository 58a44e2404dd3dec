// A file that is packed with gzip as it is written.
#pragma once
#include <memory>

#include "hyperion/base/files.h"

namespace hyperion::trace {

// Whole once sync() returned, which is called once, last. In a build without zlib this throws ConfigError.
std::unique_ptr<base::WritableFile> gzip_file(std::unique_ptr<base::WritableFile> under);

}  // namespace hyperion::trace

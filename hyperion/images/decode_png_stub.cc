#include "hyperion/base/error.h"
#include "hyperion/images/image_codecs.h"

namespace hyperion::images {
namespace {

[[noreturn]] void png_absent(const std::string& name) {
  throw base::ConfigError(name + ": this build cannot read PNG files", "install libpng-dev and build again");
}

}  // namespace

ImageSize png_size(std::string_view, const std::string& name, int64_t) { png_absent(name); }
Pixels decode_png(std::string_view, const std::string& name, int64_t) { png_absent(name); }

}  // namespace hyperion::images

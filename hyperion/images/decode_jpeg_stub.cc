#include "hyperion/base/error.h"
#include "hyperion/images/image_codecs.h"

namespace hyperion::images {
namespace {

[[noreturn]] void jpeg_absent(const std::string& name) {
  throw base::ConfigError(name + ": this build cannot read JPEG files", "install libjpeg-dev and build again");
}

}  // namespace

ImageSize jpeg_size(std::string_view, const std::string& name, int64_t) { jpeg_absent(name); }
ImagePart decode_jpeg(std::string_view, const std::string& name, int64_t, const Box*, int64_t) { jpeg_absent(name); }

}  // namespace hyperion::images

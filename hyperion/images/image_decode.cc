#include "hyperion/images/image_decode.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/images/image_codecs.h"

namespace hyperion::images {
namespace {

bool is_jpeg(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with(kJpegMagic)) return true;
  if (bytes.starts_with(kPngMagic)) return false;
  throw base::CorruptError(base::format("{}: {}", name, bytes.empty() ? "empty" : "neither a JPEG nor a PNG file"));
}

}  // namespace

void check_size(ImageSize size, const std::string& name, int64_t most_pixels) {
  if (size.height < 1 || size.width < 1) throw base::CorruptError(base::format("{}: an image without pixels", name));
  if (size.height > most_pixels / size.width)
    throw base::CorruptError(base::format("{}: {} x {} pixels are more than the {} allowed", name, size.width,
                                          size.height, base::with_commas(most_pixels)));
}

bool begins_as_image(std::string_view bytes) { return bytes.starts_with(kJpegMagic) || bytes.starts_with(kPngMagic); }

Box ImagePart::find(const Box& box) const {
  const auto low = [&](int64_t at) { return at / shrink; };
  const auto high = [&](int64_t at) { return (at + shrink - 1) / shrink; };
  return {low(box.left) - left, low(box.top) - top, high(box.left + box.width) - low(box.left),
          high(box.top + box.height) - low(box.top)};
}

ImageSize image_size(std::string_view bytes, const std::string& name, int64_t most_pixels) {
  return is_jpeg(bytes, name) ? jpeg_size(bytes, name, most_pixels) : png_size(bytes, name, most_pixels);
}

Pixels decode_image(std::string_view bytes, const std::string& name, int64_t most_pixels) {
  if (is_jpeg(bytes, name)) return decode_jpeg(bytes, name, most_pixels).pixels;
  return decode_png(bytes, name, most_pixels);
}

ImagePart decode_part(std::string_view bytes, const std::string& name, const Box& box, int64_t shrink,
                      int64_t most_pixels) {
  HYPERION_CHECK(shrink == 1 || shrink == 2 || shrink == 4 || shrink == 8, "a JPEG shrinks by 1, 2, 4 or 8");
  if (is_jpeg(bytes, name)) return decode_jpeg(bytes, name, most_pixels, &box, shrink);
  return {decode_png(bytes, name, most_pixels), 0, 0, 1};
}

}  // namespace hyperion::images

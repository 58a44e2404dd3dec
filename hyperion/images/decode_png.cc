#include <png.h>

#include <csetjmp>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/images/image_codecs.h"

namespace hyperion::images {
namespace {

// libpng leaves by longjmp, over whatever stands between: so what calls it holds no object with a destructor, and
// everything it needs lives here.
class PngReader {
 public:
  PngReader(std::string_view bytes, int64_t most_pixels) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) return;
    png_set_read_fn(png_, this, on_read);
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // ours is the product of both
    png_set_chunk_malloc_max(png_, static_cast<png_alloc_size_t>(most_pixels));
    png_set_chunk_cache_max(png_, 64);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Both are false where libpng gave up, and reason() says why.
  bool header() { return info_ != nullptr && attempt(&PngReader::read_header); }
  bool rows(uint8_t* rgb) {  // `rgb` holds the whole image
    rgb_ = rgb;
    return attempt(&PngReader::read_rows);
  }

  ImageSize size() const { return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)}; }
  const char* reason() const { return reason_[0] == '\0' ? "no memory" : reason_; }

 private:
  // Alone with setjmp, so that no variable can be caught half-changed.
  __attribute__((noinline)) bool attempt(void (PngReader::*work)()) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    (this->*work)();
    return true;
  }

  void read_header() { png_read_info(png_, info_); }

  void read_rows() {
    const png_size_t width = png_get_image_width(png_, info_) * png_size_t{3};
    const png_uint_32 height = png_get_image_height(png_, info_);
    png_set_strip_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != width) png_error(png_, "rows of an unknown form");
    for (int pass = 0; pass < passes; ++pass)
      for (png_uint_32 y = 0; y < height; ++y) png_read_row(png_, rgb_ + y * width, nullptr);
    png_read_end(png_, nullptr);
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->reason_, message, sizeof self->reason_ - 1);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep out, png_size_t count) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self->rest_.size()) png_error(png, "the file ends too early");
    std::memcpy(out, self->rest_.data(), count);
    self->rest_.remove_prefix(count);
  }

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  uint8_t* rgb_ = nullptr;
  char reason_[200] = {};
};

[[noreturn]] void refuse(const PngReader& reader, const std::string& name) {
  throw base::CorruptError(base::format("{}: damaged PNG file: {}", name, reader.reason()));
}

void read_header(PngReader& reader, const std::string& name, int64_t most_pixels) {
  if (!reader.header()) refuse(reader, name);
  check_size(reader.size(), name, most_pixels);
}

}  // namespace

ImageSize png_size(std::string_view bytes, const std::string& name, int64_t most_pixels) {
  PngReader reader(bytes, most_pixels);
  read_header(reader, name, most_pixels);
  return reader.size();
}

Pixels decode_png(std::string_view bytes, const std::string& name, int64_t most_pixels) {
  PngReader reader(bytes, most_pixels);
  read_header(reader, name, most_pixels);
  Pixels image(reader.size());
  if (!reader.rows(image.rgb.data())) refuse(reader, name);
  return image;
}

}  // namespace hyperion::images
